import { answerSchemaOf } from './answer-schema.js'
import { readDocument } from './document.js'
import { SchemaLowering } from './lower-schema.js'
import { operationsOf } from './operations.js'
import { argumentsOf } from './parameters.js'
import { LeftOut, member, References } from './references.js'
import { Refused } from './refused.js'
import { Selector } from './selection.js'
import { serverUrlOf } from './server-url.js'
import { toolNames } from './tool-names.js'

/**
 * @import { JsonValue } from '../../json/lossless.ts'
 * @import { ApiDocument, ImportAnswer, ImportRequest, OpenedDocument, Operation, Part, ReadOperation } from './import-job.ts'
 */

/** As many as may be registered in a scope by default; whoever wants others has to say which. */
const maxOperations = 500
/** Of one operation: as many as an import tells of all. */
const maxNotes = 200
const maxDescription = 2_000

/** Reads one document and the operations that are selected of it. What it is given may take for ever: it belongs in a thread. */
export class DocumentReader {
  /** @type {ApiDocument | undefined} */
  #document
  /** @type {References | undefined} */
  #references
  /** @type {[Operation, name: string][]} */
  #operations = []
  #needsServers = false

  /** @param {ImportRequest} request @returns {Promise<ImportAnswer>} */
  async answer(request) {
    try {
      if (request.type === 'open') return await this.#open(request)
      const [operation, name] = /** @type {[Operation, string]} */ (this.#operations[request.index])
      if (request.type === 'operation') return this.#operation(operation, name)
      return { type: 'plain-arguments', arguments: this.#arguments(operation, true, () => {}) }
    } catch (error) {
      if (error instanceof Refused) return { type: 'refused', message: error.message }
      throw error
    }
  }

  /** @param {ImportRequest & { type: 'open' }} request @returns {Promise<OpenedDocument>} */
  async #open({ text, selection, prefix, needsServers }) {
    const { document } = /** @type {{ document: JsonValue }} */ (JSON.parse(text))
    this.#document = await readDocument(document)
    this.#references = new References(this.#document.root)
    this.#needsServers = needsServers
    /** @type {{ operation: string, reason: string }[]} */
    const skipped = []
    const operations = operationsOf(this.#document.root, this.#references, new Selector(selection), (label, reason) => {
      skipped.push({ operation: label.slice(0, 500), reason })
    })
    if (operations.length > maxOperations || skipped.length > maxOperations) {
      throw new Refused(
        `The document has ${operations.length} such operations; ${maxOperations} are the most. Use "include".`
      )
    }
    if (operations.length === 0 && skipped.length === 0) throw new Refused('The document has no such operation.')
    this.#operations = [...toolNames(operations, prefix)]
    return { type: 'opened', count: operations.length, skipped }
  }

  /** @param {Operation} operation @param {string} name @returns {ReadOperation} */
  #operation(operation, name) {
    const { label, method, path, isSecured } = operation
    /** @type {string[]} */
    const notes = []
    return {
      ...{ type: 'operation', label, method, path, name, isSecured, notes },
      description: descriptionOf(operation),
      server: part(() => {
        assertPath(path)
        return this.#needsServers ? serverUrlOf(operation) : ''
      }),
      arguments: this.#arguments(operation, false, (text) => {
        if (notes.length < maxNotes) notes.push(text)
      }),
      answer: part(() => answerSchemaOf(operation, this.#lowering()))
    }
  }

  /** @param {Operation} operation @param {boolean} omitsPatterns @param {(text: string) => void} note */
  #arguments(operation, omitsPatterns, note) {
    return part(() => {
      const { references, version } = this.#lowering()
      const lowering = new SchemaLowering({ references, version, direction: 'request', omitsPatterns })
      return argumentsOf(operation, { references, lowering, note })
    })
  }

  #lowering() {
    if (this.#document === undefined || this.#references === undefined) throw new Error('no document is open')
    return { references: this.#references, version: this.#document.version }
  }
}

/** @template T @param {() => T} read @returns {Part<T>} */
function part(read) {
  try {
    return { value: read() }
  } catch (error) {
    if (!(error instanceof LeftOut)) throw error
    return { leftOut: error.message }
  }
}

/**
 * Sent as it is, save its parameters, so nothing in it may mean more than a place.
 * @param {string} path
 */
function assertPath(path) {
  if (!path.startsWith('/')) throw new LeftOut('has a path that does not begin with a slash')
  if (!/^(?:[\w\-.~!$&'()*+,;=:@/]|%[\da-f]{2}|\{[^{}]*\})*$/i.test(path)) {
    throw new LeftOut('has a path with characters that no path may have')
  }
  if (path.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) {
    throw new LeftOut('has a path that leads out of itself')
  }
}

/** @param {Operation} operation */
function descriptionOf({ given, label }) {
  const texts = ['summary', 'description'].map((key) => member(given, key)).filter((text) => typeof text === 'string')
  const [summary = '', description = ''] = texts.map((text) => text.trim())
  const told = description.startsWith(summary) ? description : `${summary}\n\n${description}`
  const mark = member(given, 'deprecated') === true ? 'Deprecated. ' : ''
  return `${mark}${told.trim() === '' ? label : told.trim()}`.slice(0, maxDescription)
}
