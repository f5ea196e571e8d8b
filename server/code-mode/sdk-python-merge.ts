import { isWritableField } from './sdk-python-text.ts'
import { inPlace, type Field, type Shape } from './sdk-shape.ts'

/** The members of all objects of an intersection. */
export interface Merged {
  readonly fields: readonly Field[]
  /** Whether further members may come. */
  readonly isOpen: boolean
}

/** The parts of an intersection, and of those in it, in their order; references that are written in place are opened. */
export function partsOfIntersection(shape: Shape): Shape[] {
  const found: Shape[] = []
  const pending = [shape]
  for (let part = pending.pop(); part !== undefined; part = pending.pop()) {
    const text = inPlace(part)
    if (text !== undefined) pending.push(text.shape)
    else if (part.kind !== 'intersection') found.push(part)
    else for (let index = part.parts.length - 1; index >= 0; index -= 1) pending.push(part.parts[index]!)
  }
  return found
}

/** One object for those of an intersection that a class can say; undefined if there is none. */
export function mergeObjects(parts: readonly Shape[]): Merged | undefined {
  const objects = parts.filter(
    (part) => part.kind === 'object' && part.fields.length > 0 && part.fields.every(isWritableField)
  ) as (Shape & {
    kind: 'object'
  })[]
  if (objects.length === 0) return undefined
  const fields = new Map<string, Field>()
  for (const field of objects.flatMap((object) => object.fields)) {
    const known = fields.get(field.name)
    const isTold = known !== undefined && known.shape.kind !== 'json' && known.shape.kind !== 'unknown'
    fields.set(field.name, {
      name: field.name,
      required: field.required || known?.required === true,
      shape: isTold ? known.shape : field.shape
    })
  }
  return { fields: [...fields.values()], isOpen: objects.every((object) => object.rest !== 'none') }
}
