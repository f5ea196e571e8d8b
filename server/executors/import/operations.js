import { entriesOf, isObject, LeftOut, member } from './references.js'
import { Refused } from './refused.js'

/**
 * @import { JsonObject } from '../../json/lossless.ts'
 * @import { Operation } from './import-job.ts'
 * @import { References } from './references.js'
 * @import { Method } from './request-mapping.ts'
 * @import { Selector } from './selection.js'
 */

const methods = /** @type {const} */ (['get', 'put', 'post', 'delete', 'options', 'head', 'patch'])

/** More than any API has: the largest public ones have a thousand. */
const maxOperations = 20_000

/**
 * The operations of a document that are selected, in its order. A pattern names an `operationId`, a `METHOD /path` or a `tag:name`, with `*` for
 * any text. `leave` hears of what cannot be read. Throws `Refused` for more operations than there can be.
 * @param {JsonObject} root @param {References} references @param {Selector} selector
 * @param {(operation: string, reason: string) => void} leave
 * @returns {Operation[]}
 */
export function operationsOf(root, references, selector, leave) {
  const operations = []
  let count = 0
  for (const [path, item] of entriesOf(member(root, 'paths'))) {
    if (path.startsWith('x-')) continue
    /** @type {JsonObject} */
    let pathItem
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
      if (count > maxOperations) throw new Refused(`The document has more than ${maxOperations} operations.`)
      const upper = /** @type {Method} */ (method.toUpperCase())
      const label = `${upper} ${path}`
      if (!isObject(given)) {
        leave(label, 'is no object')
        continue
      }
      const operation = read(root, pathItem, given, { label, method: upper, path })
      if (selector.takesAll || selector.isMeant(namesOf(operation))) operations.push(operation)
    }
  }
  return operations
}

/**
 * @param {JsonObject} root @param {JsonObject} pathItem @param {JsonObject} given
 * @param {Pick<Operation, 'label' | 'method' | 'path'>} place
 * @returns {Operation}
 */
function read(root, pathItem, given, place) {
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
      ? security.length > 0 && !security.some((way) => isObject(way) && Object.keys(way).length === 0)
      : undefined
  }
}

/** @param {Operation} operation */
function namesOf({ label, id, given }) {
  const tags = member(given, 'tags')
  const texts = Array.isArray(tags) ? tags.filter((tag) => typeof tag === 'string') : []
  return [label, ...(id === undefined ? [] : [id]), ...texts.map((tag) => `tag:${tag}`)]
}
