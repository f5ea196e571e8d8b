import { RequestError } from '../../errors.ts'
import type { JsonObject } from '../../json/lossless.ts'
import type { WireSchemas } from '../../schema/ajv-validator.ts'
import { JsonSchemaError } from '../../schema/supported.ts'
import { toolNamePattern } from '../../tools/reserved-names.js'
import { HttpToolError } from '../http-executor-errors.ts'
import type { WireToolFields } from '../wire-tool.ts'
import { documentedBaseUrl, givenBaseUrl } from './base-url.ts'
import { DocumentThread } from './document-thread.ts'
import type { Arguments, Part, ReadOperation, Selection } from './import-job.ts'
import { LeftOut } from './references.js'
import type { Method, RequestMapping } from './request-mapping.ts'

export interface ImportOptions extends Selection {
  /** Put before each name. */
  readonly prefix?: string
  /** Where the API is, whatever the document's `servers` say. */
  readonly baseUrl?: string
  /** The name of configured credentials, for operations that do not say they need none. */
  readonly auth?: string
  /** Milliseconds of a call of each. */
  readonly timeoutMs?: number
}

/** What an import asks of those who know the server. */
export interface ImportChecks {
  readonly schemas: WireSchemas
  /** Throws `HttpToolError` for where no tool may be. */
  readonly assertAllowed: (url: URL) => void
  /** Whether a server may get the credentials that were named. */
  readonly isAuthFor: (origin: string) => boolean
  /** Milliseconds of an import, from when the one before it has ended. */
  readonly maxMs: number
}

export interface ImportedTool {
  /** `GET /pets/{petId}` */
  readonly operation: string
  readonly tool: WireToolFields
  readonly request: RequestMapping
}

/** Tools of a document, which operations have none and why, and what else was left out or is to be known. */
export interface ImportReport {
  readonly tools: ImportedTool[]
  readonly skipped: { operation: string; reason: string }[]
  readonly notes: string[]
}

const maxNotes = 200
const safe: ReadonlySet<Method> = new Set(['GET', 'HEAD', 'OPTIONS'])
/** RFC 9110 §9.2.2 */
const idempotent: ReadonlySet<Method> = new Set([...safe, 'PUT', 'DELETE'])

/** Documents that wait for the one before: each is held in memory meanwhile. */
const maxWaiting = 4

let last: Promise<unknown> = Promise.resolve()
let waiting = 0

/**
 * Makes tools of the operations of an OpenAPI document of version 3.0 or 3.1 (api.md §3): JSON text that holds one as
 * `document`, which is an object, or JSON or YAML text again. Nothing is registered, and nothing is fetched. Rejects with `INVALID_DEFINITION` for what is no
 * such document, for a selection of none, or of more than 500 operations, and for what takes too long or too much memory.
 *
 * One at a time, as each may take as much memory as its thread may have. Throws `OVERLOADED` when too many wait already.
 */
export function importOpenApi(text: string, options: ImportOptions, checks: ImportChecks): Promise<ImportReport> {
  if (waiting >= maxWaiting) throw new RequestError('OVERLOADED', 'Too many documents wait to be read.')
  waiting += 1
  const next = last.then(() => {
    waiting -= 1
    return imported(text, options, checks)
  })
  last = next.catch(() => undefined)
  return next
}

async function imported(text: string, options: ImportOptions, checks: ImportChecks): Promise<ImportReport> {
  const { prefix = '', include, exclude, baseUrl } = options
  if (prefix !== '' && (!toolNamePattern.test(prefix) || prefix.length > 32)) {
    throw invalid(`"prefix" must match ${toolNamePattern.source} and have at most 32 characters.`)
  }
  const selection = { ...(include !== undefined && { include }), ...(exclude !== undefined && { exclude }) }
  const document = new DocumentThread(text.length, AbortSignal.timeout(checks.maxMs))
  try {
    const needsServers = baseUrl === undefined
    const { count, skipped } = await document.open({ text, selection, prefix, needsServers })
    const report: ImportReport = { tools: [], skipped: [...skipped], notes: [] }
    let unproven = 0
    for (let index = 0; index < count; index += 1) {
      const operation = await document.operation(index)
      const context: Context = {
        ...{ options, checks },
        plainArguments: () => document.plainArguments(index),
        note: (text) => {
          if (report.notes.length < maxNotes) report.notes.push(`${operation.label.slice(0, 500)}: ${text}`)
        }
      }
      try {
        report.tools.push(await toolOf(operation, context))
        if (operation.isSecured === true && options.auth === undefined) unproven += 1
      } catch (error) {
        if (!(error instanceof LeftOut || error instanceof HttpToolError)) throw error
        report.skipped.push({ operation: operation.label.slice(0, 500), reason: error.message })
      }
    }
    if (unproven > 0) report.notes.push(`${unproven} operations ask for credentials, and no "auth" was given`)
    return report
  } finally {
    await document.close()
  }
}

interface Context {
  readonly options: ImportOptions
  readonly checks: ImportChecks
  readonly plainArguments: () => Promise<Part<Arguments>>
  readonly note: (text: string) => void
}

async function toolOf(operation: ReadOperation, context: Context): Promise<ImportedTool> {
  const { options, checks } = context
  const { method, label, path, name, description } = operation
  const server = whole(operation.server)
  const baseUrl = options.baseUrl === undefined ? documentedBaseUrl(server) : givenBaseUrl(options.baseUrl)
  checks.assertAllowed(new URL(baseUrl))
  const auth = operation.isSecured === false ? undefined : options.auth
  if (auth !== undefined && !checks.isAuthFor(new URL(baseUrl).origin)) {
    throw new LeftOut(`is at ${new URL(baseUrl).origin}, which may not get the credentials`)
  }
  const { schema, parameters, body } = await compiledArguments(operation, context)
  const output = await compiledAnswer(operation, context)
  return {
    operation: label,
    tool: {
      name,
      description,
      parameters: schema,
      ...(output !== undefined && { output: { schema: output } }),
      ...(options.timeoutMs !== undefined && { timeoutMs: options.timeoutMs }),
      concurrency: safe.has(method) ? 'parallel' : 'exclusive',
      idempotent: idempotent.has(method),
      origin: 'import'
    },
    request: {
      method,
      baseUrl,
      path,
      parameters,
      ...(body !== undefined && { body }),
      ...(auth !== undefined && { auth })
    }
  }
}

/** Patterns that no linear engine can match are the server's to check: it knows its own. */
async function compiledArguments(
  operation: ReadOperation,
  { checks, note, plainArguments }: Context
): Promise<Arguments> {
  for (const text of operation.notes) note(text)
  const given = whole(operation.arguments)
  const fault = await faultOf(checks.schemas, given.schema, 'parameters')
  if (fault === undefined) return given
  const plain = given.hasPatterns ? whole(await plainArguments()) : given
  if (!given.hasPatterns || (await faultOf(checks.schemas, plain.schema, 'parameters')) !== undefined) {
    throw new LeftOut(`takes what cannot be checked: ${fault}`)
  }
  note(`its patterns are not checked here: ${fault}`)
  return plain
}

async function compiledAnswer({ answer }: ReadOperation, { checks, note }: Context): Promise<JsonObject | undefined> {
  if ('leftOut' in answer) {
    note(`its answer is not checked: it ${answer.leftOut}`)
    return undefined
  }
  const schema = answer.value
  const fault = schema === undefined ? undefined : await faultOf(checks.schemas, schema, 'output.schema')
  if (fault === undefined) return schema
  note(`its answer is not checked: ${fault}`)
  return undefined
}

async function faultOf(schemas: WireSchemas, schema: JsonObject, root: string): Promise<string | undefined> {
  try {
    await schemas.compile(schema, root)
    return undefined
  } catch (error) {
    if (error instanceof JsonSchemaError) return error.violations.join('; ').slice(0, 500)
    throw error
  }
}

function whole<T>(part: Part<T>): T {
  if ('leftOut' in part) throw new LeftOut(part.leftOut)
  return part.value
}

const invalid = (message: string): RequestError => new RequestError('INVALID_DEFINITION', message)
