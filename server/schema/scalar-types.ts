/** The types that have no parts; only these take `enum` and `const` (core.md §3.5). */
export const scalarTypes = ['string', 'number', 'integer', 'boolean', 'null'] as const

export type ScalarType = (typeof scalarTypes)[number]

/** Whether a value is of a scalar type: a number is finite and not `-0`, an integer is also integral (core.md §3.6). */
export function isOfType(type: ScalarType, value: unknown): boolean {
  switch (type) {
    case 'string':
    case 'boolean':
      return typeof value === type
    case 'null':
      return value === null
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0)
    case 'integer':
      return Number.isInteger(value) && !Object.is(value, -0)
  }
}
