import { camelCase, joinName } from './sdk-names.ts'
import { any, bitOf, bracketed, union, word, type Expression } from './sdk-python-expression.ts'
import { commentLine, isWritableField, pythonLiteral } from './sdk-python-text.ts'
import { mergeObjects, partsOfIntersection, type Merged } from './sdk-python-merge.ts'
import { commentOf, inPlace, joinComment, type Definition, type Field, type Shape } from './sdk-shape.ts'

/** Where a shape is written. */
interface Place {
  readonly shape: Shape
  /** What its class would be called, and where the names of classes inside begin. */
  readonly base: string
  /** `base` is given out already, to the definition whose shape this is. */
  readonly isOwner?: boolean
  /** How many brackets are open around it, and how many may be. */
  readonly open: number
  readonly limit: number
}

/** A shape being written: its parts first, then itself. */
interface Frame {
  readonly place: Place
  readonly parts: readonly Place[]
  readonly written: Expression[]
  write(written: readonly Expression[]): Expression
}

// CPython refuses 200 open brackets; a field has `NotRequired[` around it.
const mostBrackets = 180
const furtherKeys = '    # Further keys are allowed.\n'

/** Writes shapes as type expressions, and the classes and aliases that these need. Iterative. */
export class PythonTypes {
  /** In the order in which they can be declared: each after those that it uses, unless they use each other. */
  readonly declarations: string[] = []
  /** The imports that the declarations and the types handed out need. */
  symbols = 0
  readonly #allocate: (base: string) => string
  readonly #nameOf = new Map<Definition, string>()
  readonly #classes = new Set<string>()

  constructor(allocate: (base: string) => string) {
    this.#allocate = allocate
  }

  /** The type of a shape; `base` is the name of its class, should it need one. */
  write(shape: Shape, base: string): string {
    const root = joinName(base, '')
    const frames = [this.#open({ shape, base: root, open: 0, limit: mostBrackets }, root)]
    for (let frame = frames[0]!; ; frame = frames.at(-1)!) {
      const part = frame.parts[frame.written.length]
      if (part !== undefined) {
        frames.push(this.#open(part, root))
        continue
      }
      const expression = frame.write(frame.written)
      frames.pop()
      const holder = frames.at(-1)
      if (holder !== undefined) {
        holder.written.push(expression)
        continue
      }
      this.symbols |= expression.symbols
      return expression.text
    }
  }

  #open(place: Place, root: string): Frame {
    const { shape, base } = place
    const frame = (parts: readonly Place[], write: Frame['write']): Frame => ({ place, parts, written: [], write })
    const leaf = (expression: Expression): Frame => frame([], () => expression)
    const inside = (part: Shape, name = base): Place => ({
      shape: part,
      base: name,
      open: place.open + 1,
      limit: place.limit
    })
    const isFull = place.open + 1 >= place.limit
    switch (shape.kind) {
      case 'scalar':
        return leaf(word(scalars[shape.type]))
      case 'literals':
        return leaf(word(`Literal[${shape.values.map(pythonLiteral).join(', ')}]`, 'Literal'))
      case 'array':
        if (shape.items === undefined || isFull) return leaf(bracketed('list[', any))
        return frame([inside(shape.items)], ([item]) => bracketed('list[', item!))
      case 'tuple': {
        const items = shape.rest === undefined ? shape.items : [...shape.items, shape.rest]
        if (items.length === 0 || isFull || items.some(isOpen)) return leaf(bracketed('list[', any))
        const places = items.map((item, index) => inside(item, joinName(base, String(index + 1))))
        return frame(places, (written) => bracketed('list[', union(withoutRepeats(written))))
      }
      case 'union':
        return frame(branchesOf({ ...place, isOwner: false }), union)
      case 'object':
        return this.#openObject(place, frame, inside, isFull)
      case 'intersection':
        return this.#openIntersection(place, frame)
      case 'reference':
        return this.#openReference(place, root, frame)
      case 'json':
      case 'unknown':
      case 'never':
        return leaf(any)
    }
  }

  #openObject(place: Place, frame: OpenFrame, inside: (part: Shape) => Place, isFull: boolean): Frame {
    const { fields, rest } = place.shape as Shape & { kind: 'object' }
    if (fields.length === 0 && typeof rest !== 'string' && !isFull) {
      return frame([inside(rest)], ([member]) => bracketed('dict[str, ', member!))
    }
    if (!fields.every(isWritableField) || (fields.length === 0 && rest !== 'none')) {
      return frame([], () => bracketed('dict[str, ', any))
    }
    return this.#openClass(place, frame, { fields, isOpen: rest !== 'none' }, [])
  }

  /** There are no intersections in Python: objects become one class, and of other parts the first that says something stands for all. */
  #openIntersection(place: Place, frame: OpenFrame): Frame {
    const parts = partsOfIntersection(place.shape)
    const references = parts.filter((part) => part.kind === 'reference' && part.definition !== undefined)
    const merged = mergeObjects(parts)
    const places = references.map((shape) => ({ ...place, isOwner: false, shape }))
    if (merged !== undefined) return this.#openClass(place, frame, merged, places)
    const other = parts.find((part) => part.kind !== 'reference' && !isOpen(part))
    if (other !== undefined)
      places.push({ ...place, isOwner: places.length === 0 && place.isOwner === true, shape: other })
    return frame(places, (written) => {
      const bases = withoutRepeats(written.filter(({ text }) => this.#classes.has(text)))
      if (bases.length < 2) return bases[0] ?? written.find(({ text }) => text !== any.text) ?? any
      const name = this.#nameOfClass(place)
      this.#declare(place, `class ${name}(${bases.map(({ text }) => text).join(', ')}):\n    pass`)
      return word(name)
    })
  }

  #openClass(place: Place, frame: OpenFrame, { fields, isOpen }: Merged, bases: readonly Place[]): Frame {
    const name = this.#nameOfClass(place)
    const places = fields.map(({ name: field, shape }) => ({
      shape,
      base: joinName(name, camelCase(field)),
      open: 0,
      limit: mostBrackets - 1
    }))
    return frame([...bases, ...places], (written) => {
      const parents = withoutRepeats(written.slice(0, bases.length).filter(({ text }) => this.#classes.has(text)))
      const types = written.slice(bases.length)
      let text = `class ${name}(${parents.length === 0 ? 'TypedDict' : parents.map((parent) => parent.text).join(', ')}):\n`
      if (parents.length === 0) this.symbols |= bitOf('TypedDict')
      fields.forEach((field, index) => {
        text += this.#writeField(field, types[index]!)
      })
      if (fields.length === 0) text += '    pass\n'
      if (isOpen) text += furtherKeys
      this.#declare(place, text.trimEnd())
      return word(name)
    })
  }

  #writeField({ name, required, shape }: Field, type: Expression): string {
    const whole = required ? type : bracketed('NotRequired[', type, 'NotRequired')
    this.symbols |= whole.symbols
    return `${commentLine(commentOf(shape), '    ')}    ${name}: ${whole.text}\n`
  }

  #openReference(place: Place, root: string, frame: OpenFrame): Frame {
    const { definition } = place.shape as Shape & { kind: 'reference' }
    if (definition === undefined) return frame([], () => any)
    const text = inPlace(place.shape)
    if (text !== undefined) return frame([{ ...place, shape: text.shape }], ([written]) => written!)
    const known = this.#nameOf.get(definition)
    if (known !== undefined) return frame([], () => word(known))
    const name = this.#allocate(definition.hint === '' ? root : joinName(root, camelCase(definition.hint)))
    this.#nameOf.set(definition, name)
    const body: Place = { shape: definition.shape, base: name, isOwner: true, open: 0, limit: mostBrackets }
    return frame([body], ([written]) => {
      if (written!.text !== name) {
        this.symbols |= written!.symbols
        this.#declare(body, `${name} = ${written!.text}`)
      }
      return word(name)
    })
  }

  #nameOfClass({ base, isOwner }: Place): string {
    const name = isOwner === true ? base : this.#allocate(base)
    this.#classes.add(name)
    return name
  }

  #declare({ shape, isOwner }: Place, text: string): void {
    const comment = isOwner === true ? joinComment(shape.description, shape.rules) : ''
    this.declarations.push(commentLine(comment, '') + text)
  }
}

type OpenFrame = (parts: readonly Place[], write: Frame['write']) => Frame

const scalars = { string: 'str', number: 'float', integer: 'int', boolean: 'bool', null: 'None' } as const

const isOpen = (shape: Shape): boolean => shape.kind === 'json' || shape.kind === 'unknown'

/** The branches of a union and of those in it, so that `union` can tell how long the whole chain is. */
function branchesOf(place: Place): Place[] {
  const found: Place[] = []
  const pending = [place]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { shape, base } = next
    const text = inPlace(shape)
    if (text !== undefined) pending.push({ ...next, shape: text.shape })
    else if (shape.kind !== 'union') found.push(next)
    else {
      for (let index = shape.branches.length - 1; index >= 0; index -= 1) {
        pending.push({ ...next, shape: shape.branches[index]!, base: joinName(base, String(index + 1)) })
      }
    }
  }
  return found
}

function withoutRepeats(expressions: readonly Expression[]): Expression[] {
  return [...new Map(expressions.map((expression) => [expression.text, expression])).values()]
}
