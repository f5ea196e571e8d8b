import { formatPath, type PathStep } from './path.ts'
import { hasOnlyItems, isPlainArray, isPlainObject, setOwn } from './plain.ts'

/** Any JSON value. What it admits at run time is core.md §2: no `-0`, no `undefined`, no accessors. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue }
export type JsonObject = { [key: string]: JsonValue }

/** Of JSON values, whether it is an object; for others see `isRecord` in plain.ts. */
export const isJsonObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A value is not lossless JSON (core.md §2.2): `path` (`$.rows[3].at`) says where, `reason` (`Date is not JSON`) why. */
export class LosslessJsonError extends Error {
  override readonly name = 'LosslessJsonError'
  readonly path: string
  readonly reason: string

  constructor(path: string, reason: string) {
    super(`The value is not lossless JSON: ${path}: ${reason}`)
    this.path = path
    this.reason = reason
  }
}

/** One container being copied; `keys` is undefined for an array. `next` is the item to read next. */
interface Frame {
  readonly source: Record<PathStep, unknown>
  readonly target: Record<PathStep, unknown>
  readonly keys: readonly string[] | undefined
  readonly length: number
  readonly parent: Frame | undefined
  next: number
}

/**
 * Checks that a value is lossless JSON and copies it in the same pass, so that a getter, read once, cannot pass the check
 * with one answer and be stored with another (core.md §2). The copy is detached, with ordinary prototypes; nesting is
 * bounded by memory alone. Throws `LosslessJsonError`; what a getter or a proxy throws goes through as it is.
 */
export function snapshot(value: unknown): JsonValue {
  if (isScalar(value)) return value
  if (typeof value !== 'object') throw new LosslessJsonError('$', reasonOf(value))
  // Made for the first container within another: most values have none.
  let ancestors: Set<unknown> | undefined
  let frame: Frame | undefined = open(value, undefined)
  const { target } = frame
  while (frame !== undefined) {
    if (frame.next === frame.length) {
      ancestors?.delete(frame.source)
      frame = frame.parent
      continue
    }
    const key: PathStep = frame.keys === undefined ? frame.next : frame.keys[frame.next]!
    frame.next += 1
    const item = frame.source[key]
    if (isScalar(item)) {
      add(frame, key, item)
      continue
    }
    if (typeof item !== 'object') throw failure(frame, reasonOf(item))
    ancestors ??= new Set([value])
    if (ancestors.has(item)) throw failure(frame, 'a circular reference is not JSON')
    const child: Frame = open(item, frame)
    add(frame, key, child.target)
    ancestors.add(item)
    frame = child
  }
  return target as JsonValue
}

/** Items come in order, so that an array need not be asked for each whether it has it: with 20,000 of them that was a quarter of the time. */
function add({ target, keys }: Frame, key: PathStep, value: unknown): void {
  if (keys === undefined) (target as unknown as unknown[]).push(value)
  else setOwn(target, key, value)
}

/** Whether `snapshot` would accept the value. Never throws: a getter that throws makes the value lossy (code-mode.md §9). */
export function isLosslessJson(value: unknown): value is JsonValue {
  try {
    snapshot(value)
    return true
  } catch {
    return false
  }
}

function isScalar(value: unknown): value is string | number | boolean | null {
  if (typeof value === 'number') return Number.isFinite(value) && !Object.is(value, -0)
  return typeof value === 'string' || typeof value === 'boolean' || value === null
}

function open(source: object, parent: Frame | undefined): Frame {
  if (Array.isArray(source)) {
    if (!isPlainArray(source)) throw failure(parent, `${classOf(source)} is not JSON`)
    // A proxy may give another length each time it is asked.
    const { length } = source
    if (!hasOnlyItems(source, length)) throw failure(parent, 'an array with holes or further properties is not JSON')
    return { source: source as never, target: [] as never, keys: undefined, length, parent, next: 0 }
  }
  if (!isPlainObject(source)) throw failure(parent, `${classOf(source)} is not JSON`)
  const keys = Object.keys(source)
  const all = Reflect.ownKeys(source)
  if (all.length !== keys.length) {
    const odd = all.some((key) => typeof key === 'symbol') ? 'a symbol key' : 'a non-enumerable property'
    throw failure(parent, `an object with ${odd} is not JSON`)
  }
  return { source: source as never, target: {}, keys, length: keys.length, parent, next: 0 }
}

function failure(frame: Frame | undefined, reason: string): LosslessJsonError {
  const steps: PathStep[] = []
  for (let at = frame; at !== undefined; at = at.parent) steps.push(at.keys?.[at.next - 1] ?? at.next - 1)
  return new LosslessJsonError(formatPath('$', steps.toReversed()), reason)
}

function reasonOf(value: unknown): string {
  if (typeof value === 'number') return `${Object.is(value, -0) ? '-0' : String(value)} is not JSON`
  return value === undefined ? 'undefined is not JSON' : `a ${typeof value} is not JSON`
}

// The class is named from its descriptors alone: no getter of the rejected value runs.
function classOf(value: object): string {
  const prototype: unknown = Object.getPrototypeOf(value)
  const constructor = ownData(prototype, 'constructor')
  const name = typeof constructor === 'function' ? ownData(constructor, 'name') : undefined
  const kind = Array.isArray(value) ? 'an array that is not plain' : 'an object that is not plain'
  if (typeof name !== 'string' || name === '' || name === 'Object' || name === 'Array') return kind
  return name.slice(0, 80)
}

function ownData(holder: unknown, key: string): unknown {
  if (holder === null || (typeof holder !== 'object' && typeof holder !== 'function')) return undefined
  return Object.getOwnPropertyDescriptor(holder, key)?.value
}
