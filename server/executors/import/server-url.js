import { isObject, LeftOut, member, quoted } from './references.js'

/**
 * @import { JsonValue } from '../../json/lossless.ts'
 * @import { Operation } from './import-job.ts'
 */

/** Longer ones are refused in the end; defaults that stand in a URL a million times must not make a text that no memory holds. */
const maxCharacters = 10_000

/**
 * The first of the document's servers for an operation, with the defaults of its variables. Throws `LeftOut`.
 * @param {Operation} operation
 */
export function serverUrlOf({ servers }) {
  const [server] = Array.isArray(servers) ? servers : []
  const url = isObject(server) ? member(server, 'url') : undefined
  if (!isObject(server) || typeof url !== 'string') throw new LeftOut('has no server in the document; give a "baseUrl"')
  return url
    .slice(0, maxCharacters)
    .replaceAll(/\{([^{}]*)\}/g, (_all, /** @type {string} */ name) => defaultOf(member(server, 'variables'), name))
    .slice(0, maxCharacters)
}

/** @param {JsonValue | undefined} variables @param {string} name */
function defaultOf(variables, name) {
  const variable = isObject(variables) ? member(variables, name) : undefined
  const value = isObject(variable) ? member(variable, 'default') : undefined
  if (typeof value !== 'string')
    throw new LeftOut(`is at a server with the variable ${quoted(name)}, which has no default`)
  return value.slice(0, maxCharacters)
}
