import { inspect, types } from 'node:util'

const objectPrototype = Object.prototype
const arrayPrototype = Array.prototype
// Captured, so that a later patch of it forges nothing.
// oxlint-disable-next-line typescript/unbound-method -- `call` is bound to it right here
const sourceOf = Function.prototype.call.bind(Function.prototype.toString) as (of: unknown) => string

/** Whether the value's prototype is null or an intrinsic `Object.prototype` of any realm (core.md §2.1). */
export function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === objectPrototype || prototype === null || isIntrinsic(prototype, 'Object')
}

/** Whether an array's prototype is an intrinsic `Array.prototype` of any realm: false for subclasses (core.md §2.2). */
export function isPlainArray(value: readonly unknown[]): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === arrayPrototype || isIntrinsic(prototype, 'Array')
}

/**
 * Whether the value is an ordinary record: a plain object all of whose own keys are enumerable strings (core.md §2.1). The
 * test runs no getter.
 */
export function isRecord(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || !isPlainObject(value)) return false
  return Reflect.ownKeys(value).length === Object.keys(value).length
}

/** Whether the value is a dense plain array with no own property but its items (core.md §2.2). It runs no getter. */
export function isDenseArray(value: unknown): value is unknown[] {
  return Array.isArray(value) && isPlainArray(value) && hasOnlyItems(value, value.length)
}

/**
 * Whether an array of this length has each of its items and nothing else: no hole, no further key. Own keys come with the
 * indices first and ascending, so the last index being in its place proves that all are there.
 */
export function hasOnlyItems(value: readonly unknown[], length: number): boolean {
  if (length > longArray && hasNoFurtherKey(value)) return hasEveryItem(value)
  const keys = Reflect.ownKeys(value)
  if (keys.length !== length + 1 || keys[length] !== 'length') return false
  return length === 0 || keys[length - 1] === String(length - 1)
}

const longArray = 200

// Listing the own keys of an array makes a string of each index: 20 ms for 50,000 items, and there is no call that leaves
// the indices out. `inspect` has one inside, and takes 30 µs. Its text is compared as a whole, so that anything unusual, or
// another wording in some later Node, only leads back to the list.
function hasNoFurtherKey(value: readonly unknown[]): boolean {
  if (types.isProxy(value) || Object.getOwnPropertySymbols(value).length > 0) return false
  const text = inspect(value, { maxArrayLength: 0, showHidden: true, customInspect: false, breakLength: Infinity })
  return text === `[ ... ${value.length} more items, [length]: ${value.length} ]`
}

function hasEveryItem(value: readonly unknown[]): boolean {
  for (let index = 0; index < value.length; index += 1) if (!Object.hasOwn(value, index)) return false
  return true
}

/**
 * Sets an own, ordinary property. Assigning would not make one of `__proto__`, nor of any other name that the prototype has
 * once that is frozen.
 */
export function setOwn(target: object, key: string | number, value: unknown): void {
  if (key in target) {
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true })
  } else (target as Record<string | number, unknown>)[key] = value
}

/** The value of an own property, or undefined: an inherited one does not exist (core.md §3.11). */
export function ownValue(record: object, key: string): unknown {
  return Object.hasOwn(record, key) ? (record as Record<string, unknown>)[key] : undefined
}

// A prototype of another realm is told by its constructor, whose text no program can forge: `[native code]` does not
// parse, and bound functions and proxies have no name in theirs.
function isIntrinsic(prototype: unknown, name: 'Object' | 'Array'): boolean {
  if (typeof prototype !== 'object' || prototype === null) return false
  const constructor: unknown = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value
  return (
    typeof constructor === 'function' &&
    sourceOf(constructor) === `function ${name}() { [native code] }` &&
    constructor.prototype === prototype
  )
}
