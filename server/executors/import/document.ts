import { Worker } from 'node:worker_threads'
import { RequestError } from '../../errors.ts'
import { isJsonObject, type JsonObject, type JsonValue } from '../../json/lossless.ts'
import { JsonTextError, parseJson } from '../../json/parse-body.ts'
import { ownValue } from '../../json/plain.ts'

/** What the thread says of a text. */
export type YamlAnswer = { json: string } | { failure: string }

/** A document that describes an HTTP API, as far as it is known to be one. */
export interface ApiDocument {
  readonly root: JsonObject
  readonly version: '3.0' | '3.1'
}

/** Of a document's text, in characters. The largest public ones have 12 million; as many as anybody imports at once fit in less. */
const maxCharacters = 8 * 1024 * 1024
const maxDepth = 256
const yamlTimeoutMs = 20_000
const yamlHeapMb = 512

/**
 * Reads an OpenAPI document, given as JSON text, as YAML, or parsed. Rejects with `INVALID_DEFINITION`. YAML is read in a thread: its
 * reader took 9 s for 8 MB, and a hostile text can take it for ever.
 */
export async function readDocument(given: JsonValue): Promise<ApiDocument> {
  const root = typeof given === 'string' ? await parseText(given) : given
  if (!isJsonObject(root)) throw refused('is no object')
  const version = ownValue(root, 'openapi')
  if (typeof version !== 'string' || !/^3\.[01](\.|$)/.test(version)) {
    throw refused('is no OpenAPI document of version 3.0 or 3.1: its "openapi" says otherwise')
  }
  return { root, version: version.startsWith('3.0') ? '3.0' : '3.1' }
}

async function parseText(text: string): Promise<JsonValue> {
  if (text.length > maxCharacters) throw refused(`is larger than ${maxCharacters} characters`)
  try {
    return parseJson(/^\s*\{/.test(text) ? text : await yamlInTurn(text), { maxDepth })
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error
    throw refused(`cannot be read: ${error.message.replace(/\.$/, '')}`)
  }
}

let reading: Promise<unknown> = Promise.resolve()

/** One at a time: each may take as much memory as its thread may have. */
function yamlInTurn(text: string): Promise<string> {
  const next = reading.then(() => yamlToJson(text))
  reading = next.catch(() => undefined)
  return next
}

async function yamlToJson(text: string): Promise<string> {
  const thread = new Worker(new URL('./yaml-thread.js', import.meta.url), {
    name: 'yaml',
    workerData: text,
    env: {},
    execArgv: [],
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: yamlHeapMb }
  })
  let timer: NodeJS.Timeout | undefined
  try {
    const answer = await new Promise<YamlAnswer>((resolve) => {
      timer = setTimeout(() => resolve({ failure: 'it takes too long' }), yamlTimeoutMs)
      thread.on('message', resolve)
      // Memory that gave out.
      thread.on('error', (error) => resolve({ failure: error.message }))
      thread.on('exit', () => resolve({ failure: 'its reader ended' }))
    })
    if ('failure' in answer) throw refused(`cannot be read as YAML: ${answer.failure}`)
    return answer.json
  } finally {
    clearTimeout(timer)
    await thread.terminate()
  }
}

const refused = (reason: string): RequestError => new RequestError('INVALID_DEFINITION', `The document ${reason}.`)
