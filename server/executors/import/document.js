import { JsonTextError, parseJson } from '../../json/parse-text.js'
import { isObject, member } from './references.js'
import { Refused } from './refused.js'

/**
 * @import { JsonValue } from '../../json/lossless.ts'
 * @import { ApiDocument } from './import-job.ts'
 */

/** Of a document's text, in characters. The largest public ones have 12 million; as many as anybody imports at once fit in less. */
const maxCharacters = 8 * 1024 * 1024
const maxDepth = 256

/**
 * Reads an OpenAPI document, given as JSON text, as YAML, or parsed. Throws `Refused`. Its reader of YAML took 9 s for 8 MB, and a hostile
 * text can take it for ever.
 * @param {JsonValue | undefined} given @returns {Promise<ApiDocument>}
 */
export async function readDocument(given) {
  const root = typeof given === 'string' ? await parseText(given) : given
  if (!isObject(root)) throw refused('is no object')
  const version = member(root, 'openapi')
  if (typeof version !== 'string' || !/^3\.[01](\.|$)/.test(version)) {
    throw refused('is no OpenAPI document of version 3.0 or 3.1: its "openapi" says otherwise')
  }
  return { root, version: version.startsWith('3.0') ? '3.0' : '3.1' }
}

/** @param {string} text */
async function parseText(text) {
  if (text.length > maxCharacters) throw refused(`is larger than ${maxCharacters} characters`)
  const json = /^\s*\{/.test(text) ? text : await yamlToJson(text)
  try {
    return parseJson(json, { maxDepth })
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error
    throw refused(`cannot be read: ${error.message.replace(/\.$/, '')}`)
  }
}

/** @param {string} text */
async function yamlToJson(text) {
  const { parse } = await import('yaml')
  try {
    // Aliases that multiply are what makes a small text large.
    return JSON.stringify(parse(text, { maxAliasCount: 100, logLevel: 'silent' })) ?? 'null'
  } catch (error) {
    // Only the first line: the others quote the text.
    const told = /** @type {Error} */ (error).message.split('\n', 1)[0]?.slice(0, 300) ?? ''
    throw refused(`cannot be read as YAML: ${told}`)
  }
}

/** @param {string} reason */
const refused = (reason) => new Refused(`The document ${reason}.`)
