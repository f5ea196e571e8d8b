import { RequestError } from '../../errors.ts'
import { isJsonObject, type JsonObject, type JsonValue } from '../../json/lossless.ts'
import { entriesOf, LeftOut, member, type References } from './references.ts'
import type { Selector } from './selection.ts'

const methods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch'] as const

export type Method = Uppercase<(typeof methods)[number]>

/** One operation of a document, as it stands there. */
export interface Operation {
  /** `GET /pets/{petId}`. */
  readonly label: string
  readonly method: Method
  readonly path: string
  readonly id: string | undefined
  readonly given: JsonObject
  /** Those of the path, which the operation may replace. */
  readonly pathParameters: readonly JsonValue[]
  readonly servers: JsonValue | undefined
  /** Whether it asks for credentials; undefined: the document does not say. */
  readonly isSecured: boolean | undefined
}

/** More than any API has: the largest public ones have a thousand. */
const maxOperations = 20_000

/**
 * The operations of a document that are selected, in its order. A pattern names an `operationId`, a `METHOD /path` or a `tag:name`, with `*` for
 * any text. `leave` hears of what cannot be read. Throws `INVALID_DEFINITION` for more
 * operations than there can be.
 */
export function operationsOf(
  root: JsonObject,
  references: References,
  selector: Selector,
  leave: (operation: string, reason: string) => void
): Operation[] {
  const operations: Operation[] = []
  let count = 0
  for (const [path, item] of entriesOf(member(root, 'paths'))) {
    if (path.startsWith('x-')) continue
    let pathItem: JsonObject
    try {
      pathItem = references.object(item, 'a path item')
    } catch (error) {
      if (!(error instanceof LeftOut)) throw error
      leave(path, error.message)
      continue
    }
    // Servers refuse it, as it shows the headers of requests.
    const trace = `TRACE ${path}`
    if (member(pathItem, 'trace') !== undefined && selector.isMeant([trace]))
      leave(trace, 'has a method that is not supported')
    for (const method of methods) {
      const given = member(pathItem, method)
      if (given === undefined) continue
      count += 1
      if (count > maxOperations) {
        throw new RequestError('INVALID_DEFINITION', `The document has more than ${maxOperations} operations.`)
      }
      const label = `${method.toUpperCase()} ${path}`
      if (!isJsonObject(given)) {
        leave(label, 'is no object')
        continue
      }
      const operation = read(root, pathItem, given, { label, method: method.toUpperCase() as Method, path })
      if (selector.isMeant(namesOf(operation))) operations.push(operation)
    }
  }
  return operations
}

function read(
  root: JsonObject,
  pathItem: JsonObject,
  given: JsonObject,
  place: Pick<Operation, 'label' | 'method' | 'path'>
): Operation {
  const id = member(given, 'operationId')
  const parameters = member(pathItem, 'parameters')
  const security = member(given, 'security') ?? member(root, 'security')
  return {
    ...place,
    id: typeof id === 'string' ? id : undefined,
    given,
    pathParameters: Array.isArray(parameters) ? parameters : [],
    servers: member(given, 'servers') ?? member(pathItem, 'servers') ?? member(root, 'servers'),
    // `{}` among the ways in is the way in without any.
    isSecured: Array.isArray(security)
      ? security.length > 0 && !security.some((way) => isJsonObject(way) && Object.keys(way).length === 0)
      : undefined
  }
}

function namesOf({ label, id, given }: Operation): string[] {
  const tags = member(given, 'tags')
  const texts = Array.isArray(tags) ? tags.filter((tag) => typeof tag === 'string') : []
  return [label, ...(id === undefined ? [] : [id]), ...texts.map((tag) => `tag:${tag}`)]
}
