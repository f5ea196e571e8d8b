import { RequestError } from '../../errors.ts'
import type { JsonObject, JsonValue } from '../../json/lossless.ts'
import type { WireSchemas } from '../../schema/ajv-validator.ts'
import { JsonSchemaError } from '../../schema/supported.ts'
import { toolNamePattern } from '../../tools/reserved-names.ts'
import { HttpToolError } from '../http-executor-errors.ts'
import type { WireToolFields } from '../wire-tool.ts'
import { answerSchemaOf } from './answer-schema.ts'
import { baseUrlOf } from './base-url.ts'
import { type ApiDocument, readDocument } from './document.ts'
import { SchemaLowering } from './lower-schema.ts'
import { type Method, type Operation, operationsOf } from './operations.ts'
import { type Arguments, argumentsOf } from './parameters.ts'
import { LeftOut, member, References } from './references.ts'
import type { RequestMapping } from './request-mapping.ts'
import { Selector } from './selection.ts'
import { toolNames } from './tool-names.ts'

export interface ImportOptions {
  /** Put before each name. */
  readonly prefix?: string
  /** Where the API is, whatever the document's `servers` say. */
  readonly baseUrl?: string
  /** The name of configured credentials, for operations that do not say they need none. */
  readonly auth?: string
  /** Which operations, by `operationId`, `METHOD /path` or `tag:name`, with `*` for any text; absent: all. */
  readonly include?: readonly string[]
  readonly exclude?: readonly string[]
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
  /** Ends an import whose schemas take too long to check. */
  readonly signal: AbortSignal
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

/** As many as may be registered in a scope by default; whoever wants others has to say which. */
const maxOperations = 500
const maxNotes = 200
const maxDescription = 2_000
const safe: ReadonlySet<Method> = new Set(['GET', 'HEAD', 'OPTIONS'])
/** RFC 9110 §9.2.2 */
const idempotent: ReadonlySet<Method> = new Set([...safe, 'PUT', 'DELETE'])

/**
 * Makes tools of the operations of an OpenAPI document of version 3.0 or 3.1 (api.md §3): text (JSON or YAML) or parsed. Nothing is
 * registered, and nothing is fetched. Rejects with `INVALID_DEFINITION` for what is no such document, for a selection of none, or of
 * more than 500 operations, and when the signal aborts.
 */
export async function importOpenApi(
  given: JsonValue,
  options: ImportOptions,
  checks: ImportChecks
): Promise<ImportReport> {
  const { prefix = '' } = options
  if (prefix !== '' && (!toolNamePattern.test(prefix) || prefix.length > 32)) {
    throw invalid(`"prefix" must match ${toolNamePattern.source} and have at most 32 characters.`)
  }
  const document = await readDocument(given)
  const references = new References(document.root)
  const report: ImportReport = { tools: [], skipped: [], notes: [] }
  const skip = (operation: string, reason: string): void => {
    report.skipped.push({ operation: operation.slice(0, 500), reason })
  }
  const operations = operationsOf(document.root, references, new Selector(options), skip)
  if (operations.length > maxOperations || report.skipped.length > maxOperations) {
    throw invalid(
      `The document has ${operations.length} such operations; ${maxOperations} are the most. Use "include".`
    )
  }
  if (operations.length === 0 && report.skipped.length === 0) throw invalid('The document has no such operation.')
  const names = toolNames(operations, prefix)
  let unproven = 0
  for (const operation of operations) {
    if (checks.signal.aborted) throw invalid('The schemas of the document take too long to check. Use "include".')
    const context: Context = {
      ...{ document, references, options, checks },
      name: names.get(operation) as string,
      note: (text) => {
        if (report.notes.length < maxNotes) report.notes.push(`${operation.label.slice(0, 500)}: ${text}`)
      }
    }
    try {
      report.tools.push(await toolOf(operation, context))
      if (operation.isSecured === true && options.auth === undefined) unproven += 1
    } catch (error) {
      if (!(error instanceof LeftOut || error instanceof HttpToolError)) throw error
      skip(operation.label, error.message)
    }
  }
  if (unproven > 0) report.notes.push(`${unproven} operations ask for credentials, and no "auth" was given`)
  return report
}

interface Context {
  readonly document: ApiDocument
  readonly references: References
  readonly options: ImportOptions
  readonly checks: ImportChecks
  readonly name: string
  readonly note: (text: string) => void
}

async function toolOf(operation: Operation, context: Context): Promise<ImportedTool> {
  const { options, checks, name } = context
  const { method, label, path } = operation
  assertPath(path)
  const baseUrl = baseUrlOf(operation, options.baseUrl)
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
      description: descriptionOf(operation),
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
  operation: Operation,
  { document, references, checks, note }: Context
): Promise<Arguments> {
  const lowered = (omitsPatterns: boolean, say: (text: string) => void): Arguments => {
    const { version } = document
    const lowering = new SchemaLowering({ references, version, direction: 'request', omitsPatterns })
    return argumentsOf(operation, { references, lowering, note: say })
  }
  const whole = lowered(false, note)
  const fault = await faultOf(checks.schemas, whole.schema, 'parameters')
  if (fault === undefined) return whole
  const plain = whole.hasPatterns ? lowered(true, () => {}) : whole
  if (!whole.hasPatterns || (await faultOf(checks.schemas, plain.schema, 'parameters')) !== undefined) {
    throw new LeftOut(`takes what cannot be checked: ${fault}`)
  }
  note(`its patterns are not checked here: ${fault}`)
  return plain
}

async function compiledAnswer(
  operation: Operation,
  { document, references, checks, note }: Context
): Promise<JsonObject | undefined> {
  try {
    const schema = answerSchemaOf(operation, { references, version: document.version })
    const fault = schema === undefined ? undefined : await faultOf(checks.schemas, schema, 'output.schema')
    if (fault === undefined) return schema
    note(`its answer is not checked: ${fault}`)
  } catch (error) {
    if (!(error instanceof LeftOut)) throw error
    note(`its answer is not checked: it ${error.message}`)
  }
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

/** Sent as it is, save its parameters, so nothing in it may mean more than a place. */
function assertPath(path: string): void {
  if (!path.startsWith('/')) throw new LeftOut('has a path that does not begin with a slash')
  if (!/^(?:[\w\-.~!$&'()*+,;=:@/]|%[\da-f]{2}|\{[^{}]*\})*$/i.test(path)) {
    throw new LeftOut('has a path with characters that no path may have')
  }
  if (path.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) {
    throw new LeftOut('has a path that leads out of itself')
  }
}

function descriptionOf({ given, label }: Operation): string {
  const texts = ['summary', 'description'].map((key) => member(given, key)).filter((text) => typeof text === 'string')
  const [summary = '', description = ''] = texts.map((text) => text.trim())
  const told = description.startsWith(summary) ? description : `${summary}\n\n${description}`
  const mark = member(given, 'deprecated') === true ? 'Deprecated. ' : ''
  return `${mark}${told.trim() === '' ? label : told.trim()}`.slice(0, maxDescription)
}

const invalid = (message: string): RequestError => new RequestError('INVALID_DEFINITION', message)
