import { isJsonObject, type JsonObject, type JsonValue } from '../../json/lossless.ts'

/** Cut of names and addresses in a line: they come from outside, and a line should stay one. */
const maxQuoted = 2_048

/**
 * What a model is given of a result's blocks, as one text (backends.md §10): texts as they are, a line for each link to a resource, and
 * for all else a bracketed line that says what was there. The value keeps everything.
 */
export function projection(content: readonly JsonValue[]): string {
  const lines = content.map(lineOf).filter((line) => line !== undefined)
  return lines.length === 0 ? '[the tool returned nothing that can be shown]' : lines.join('\n')
}

function lineOf(block: JsonValue): string | undefined {
  if (!isJsonObject(block)) return '[a block that is no object]'
  const type = own(block, 'type')
  switch (typeof type === 'string' ? type : '') {
    case 'text': {
      const text = own(block, 'text')
      return typeof text === 'string' && text !== '' ? text : undefined
    }
    case 'resource_link':
      return `[resource ${quoted(own(block, 'name'))}: ${quoted(own(block, 'uri'))}]`
    case 'image':
      return `[image, ${mediaOf(block)}: no image can be shown here]`
    case 'audio':
      return `[audio, ${mediaOf(block)}: not shown]`
    case 'resource': {
      const resource = own(block, 'resource')
      const [uri, media] = isJsonObject(resource) ? [own(resource, 'uri'), own(resource, 'mimeType')] : []
      return `[embedded resource ${quoted(uri)}, ${quoted(media)}: not shown]`
    }
    default:
      return `[a block of type ${quoted(type)}: not shown]`
  }
}

function mediaOf(block: JsonObject): string {
  const data = own(block, 'data')
  const size = typeof data === 'string' ? `${data.length} characters of base64` : 'without data'
  return `${quoted(own(block, 'mimeType'))}, ${size}`
}

/** In one line, with nothing in it that hides what is there (reliability.md §1.10). */
function quoted(value: JsonValue | undefined): string {
  if (typeof value !== 'string') return 'unknown'
  const visible = value.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '�')
  return visible.length > maxQuoted ? `${visible.slice(0, maxQuoted)}…` : visible
}

const own = (object: JsonObject, key: string): JsonValue | undefined =>
  Object.hasOwn(object, key) ? object[key] : undefined
