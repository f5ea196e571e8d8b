import type { JsonObject, JsonValue } from '../json/lossless.ts'

/** A JSON Schema as data. */
export type JsonSchema = JsonObject

interface Annotations {
  readonly description?: string
  readonly title?: string
  /** Shown to models; neither applied nor checked (core.md §3.18). */
  readonly default?: Json
  readonly examples?: Json
}

// A literal written in a spec is inferred as readonly, which JsonValue is not.
type Json = JsonValue | readonly Json[] | { readonly [key: string]: Json }

interface Scalar<Type extends string, Value> extends Annotations {
  readonly type: Type
  readonly enum?: readonly Value[]
  readonly const?: Value
}

type ScalarSpec =
  | Scalar<'string', string>
  | Scalar<'number', number>
  | Scalar<'integer', number>
  | Scalar<'boolean', boolean>
  | Scalar<'null', null>

interface ArraySpec extends Annotations {
  readonly type: 'array'
  /** Without it the items are any JSON. */
  readonly items?: ValueSpec
}

interface ObjectSpec extends Annotations {
  readonly type: 'object'
  readonly properties?: ParameterMap
  /** Whether members beyond `properties` are allowed. It has no default (core.md §4.3). */
  readonly additionalProperties: boolean
}

/** Any JSON. */
interface JsonSpec extends Annotations {
  readonly type: 'json'
}

/** Exactly one of the branches must accept the value (core.md §3.17). */
interface OneOfSpec extends Annotations {
  readonly type?: never
  readonly oneOf: readonly ValueSpec[]
}

/** What an author writes to describe one JSON value (core.md §4). */
export type ValueSpec = ScalarSpec | ArraySpec | ObjectSpec | JsonSpec | OneOfSpec

/** The same for a member of a property map, which may be required. */
export type ParameterSpec = ValueSpec & { readonly required?: true }

/** A tool's parameters: the members of an implicit open object (core.md §4.3). */
export interface ParameterMap {
  readonly [name: string]: ParameterSpec
}
