import { camelCase, joinName } from './sdk-names.ts'
import {
  commentOf,
  escapeLoneSurrogates,
  inPlace,
  isNamed,
  joinComment,
  type Definition,
  type Shape
} from './sdk-shape.ts'

/** Types declared by name in front of the tools. */
export interface NamedTypes {
  /** The declarations, in the order in which the types were met. */
  readonly texts: string[]
  readonly nameOf: Map<Definition, string>
  allocate(base: string): string
}

/** A written type. */
interface Text {
  readonly text: string
  /** Whether `|` or `&` is anywhere in it, in a string or a comment too: then an array of it has brackets. */
  readonly hasBar: boolean
  readonly joined?: '|' | '&'
}

/** A shape being written: its parts first, then itself. */
interface Frame {
  readonly shape: Shape
  readonly level: number
  readonly parts: readonly Shape[]
  readonly written: Text[]
}

const further = 'Record<string, JsonValue>'

/**
 * Writes a shape as a type that stands `level` levels deep; named types that it needs, and those that these need, are added to `named`
 * under names that begin with `base`. Iterative.
 */
export function writeType(shape: Shape, base: string, level: number, named: NamedTypes): string {
  const met: Definition[] = []
  const nameOf = (definition: Definition): string => {
    const known = named.nameOf.get(definition)
    if (known !== undefined) return known
    const name = named.allocate(definition.hint === '' ? base : joinName(base, camelCase(definition.hint, 'ascii')))
    named.nameOf.set(definition, name)
    met.push(definition)
    return name
  }
  const text = writeShape(shape, level, nameOf)
  // `met` grows while its types are written.
  for (const definition of met) {
    const { shape: body } = definition
    const comment = jsDoc(joinComment(body.description, body.rules), '')
    named.texts.push(`${comment}type ${nameOf(definition)} = ${writeShape(body, 0, nameOf)}`)
  }
  return text
}

function writeShape(root: Shape, level: number, nameOf: (definition: Definition) => string): string {
  const frames = [open(root, level)]
  for (let frame = frames[0]!; ; frame = frames.at(-1)!) {
    const part = frame.parts[frame.written.length]
    if (part !== undefined) {
      frames.push(open(part, frame.shape.kind === 'object' ? frame.level + 1 : frame.level))
      continue
    }
    const text = write(frame, nameOf)
    frames.pop()
    const holder = frames.at(-1)
    if (holder === undefined) return text.text
    holder.written.push(text)
  }
}

function open(shape: Shape, level: number): Frame {
  return { shape, level, parts: partsOf(shape), written: [] }
}

function partsOf(shape: Shape): readonly Shape[] {
  switch (shape.kind) {
    case 'array':
      return shape.items === undefined ? [] : [shape.items]
    case 'tuple':
      return shape.rest === undefined ? shape.items : [...shape.items, shape.rest]
    case 'object':
      return [...shape.fields.map((field) => field.shape), ...(typeof shape.rest === 'string' ? [] : [shape.rest])]
    case 'union':
      return shape.branches
    case 'intersection': {
      const telling = shape.parts.filter((part) => part.kind !== 'json' && part.kind !== 'unknown')
      return telling.length === 0 ? shape.parts.slice(0, 1) : telling
    }
    case 'reference': {
      const definition = inPlace(shape)
      return definition === undefined ? [] : [definition.shape]
    }
    case 'scalar':
    case 'literals':
    case 'json':
    case 'unknown':
    case 'never':
      return []
  }
}

function write({ shape, level, written }: Frame, nameOf: (definition: Definition) => string): Text {
  switch (shape.kind) {
    case 'scalar':
      return plain(shape.type === 'integer' ? 'number' : shape.type)
    case 'literals':
      return join(
        shape.values.map((value) => plain(JSON.stringify(value))),
        '|'
      )
    case 'array':
      return written[0] === undefined
        ? plain('JsonValue[]')
        : { ...bracketed(written[0], '[]'), hasBar: written[0].hasBar }
    case 'tuple':
      return writeTuple(shape, written)
    case 'object':
      return writeObject(shape, level, written)
    case 'union':
      return join(written, '|')
    case 'intersection':
      return written.length === 1 ? written[0]! : join(written.map(asPart), '&')
    case 'reference':
      return (
        written[0] ??
        plain(shape.definition !== undefined && isNamed(shape.definition) ? nameOf(shape.definition) : 'unknown')
      )
    case 'json':
      return plain('JsonValue')
    case 'unknown':
    case 'never':
      return plain(shape.kind)
  }
}

const plain = (text: string): Text => ({ text, hasBar: /[|&]/.test(text) })

const bracketed = ({ text, hasBar }: Text, suffix: string): Text => ({
  text: hasBar ? `(${text})${suffix}` : text + suffix,
  hasBar
})

const asPart = (part: Text): Text => (part.joined === '|' ? { text: `(${part.text})`, hasBar: true } : part)

function join(texts: readonly Text[], operator: '|' | '&'): Text {
  if (texts.length === 1) return texts[0]!
  return {
    text: concatenate(
      texts.map(({ text }) => text),
      ` ${operator} `
    ),
    hasBar: true,
    joined: operator
  }
}

// `+` only notes what belongs together, `Array.join` copies it: at every level of a deep type that is quadratic.
function concatenate(texts: readonly string[], separator: string): string {
  let all = ''
  texts.forEach((text, index) => {
    all += index === 0 ? text : separator + text
  })
  return all
}

function writeTuple({ items, required }: Shape & { kind: 'tuple' }, written: readonly Text[]): Text {
  const members = written.map((text, index) => {
    if (index < required) return text.text
    return index < items.length ? bracketed(text, '?').text : `...${bracketed(text, '[]').text}`
  })
  return { text: `[${concatenate(members, ', ')}]`, hasBar: written.some(({ hasBar }) => hasBar) }
}

function writeObject({ fields, rest }: Shape & { kind: 'object' }, level: number, written: readonly Text[]): Text {
  if (fields.length === 0) {
    if (rest === 'any') return plain(further)
    if (rest === 'none') return plain('Record<string, never>')
    return { text: `{ [key: string]: ${written[0]!.text} }`, hasBar: written[0]!.hasBar }
  }
  const inner = indent(level + 1)
  let text = '{\n'
  let hasBar = rest !== 'none'
  fields.forEach(({ name, required, shape }, index) => {
    const type = written[index]!
    const head = `${jsDoc(commentOf(shape), inner)}${inner}${memberName(name)}${required ? '' : '?'}: `
    hasBar ||= type.hasBar || /[|&]/.test(head)
    text += `${head}${type.text};\n`
  })
  text += `${indent(level)}}`
  return rest === 'none' ? { text, hasBar } : { text: `${text} & ${further}`, hasBar, joined: '&' }
}

// A schema thousands of objects deep would have a text that is mostly blanks, growing with the square of the depth.
const deepestIndent = 32

const indent = (level: number): string => '  '.repeat(Math.min(level, deepestIndent))

/** A property name: bare where TypeScript takes it, which includes keywords and `__proto__`, else a JSON string. */
export function memberName(name: string): string {
  return /^[A-Za-z_$][A-Za-z0-9_$]*$/.test(name) ? name : JSON.stringify(name)
}

/** The line of a comment, or nothing for empty text. */
export function jsDoc(text: string, before: string): string {
  return text === '' ? '' : `${before}/** ${escapeLoneSurrogates(text).replaceAll('*/', '*\\/')} */\n`
}
