import type { JsonValue } from '../json/lossless.ts'
import type { ParameterMap, ValueSpec } from './spec.ts'

/**
 * The type of the values that a spec admits: literals of `const` and `enum`, required and optional members, an open object
 * crossed with a record of JSON. Exact for 16 levels of containers, `JsonValue` below (core.md §4.8).
 */
export type InferValue<Spec> = Infer<Spec, Levels>

/** The type of the arguments that a parameter map admits: its object is the first of the 16 levels, and open. */
export type InferParameters<Map> = InferObject<Map, true, Below<Levels>>

// One element a level that may still be opened.
type Levels = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
type Below<Depth> = Depth extends readonly [unknown, ...infer Rest] ? Rest : []

// A spec whose type is only `ValueSpec` tells nothing.
type Infer<Spec, Depth extends readonly unknown[]> = ValueSpec extends Spec
  ? JsonValue
  : Spec extends { readonly oneOf: readonly (infer Branch)[] }
    ? Infer<Branch, Depth>
    : Spec extends { readonly type: 'array' | 'object' }
      ? Depth extends readonly []
        ? JsonValue
        : InferContainer<Spec, Below<Depth>>
      : InferScalar<Spec>

type InferScalar<Spec> = Spec extends { readonly const: infer Literal }
  ? Literal
  : Spec extends { readonly enum: readonly (infer Literal)[] }
    ? Literal
    : Spec extends { readonly type: keyof ScalarTypes }
      ? ScalarTypes[Spec['type']]
      : JsonValue

interface ScalarTypes {
  string: string
  number: number
  integer: number
  boolean: boolean
  null: null
}

type InferContainer<Spec, Depth extends readonly unknown[]> = Spec extends { readonly type: 'array' }
  ? Spec extends { readonly items: infer Items }
    ? Infer<Items, Depth>[]
    : JsonValue[]
  : Spec extends { readonly additionalProperties: infer Open }
    ? InferObject<Spec extends { readonly properties: infer Map } ? Map : unknown, Open, Depth>
    : JsonValue

type InferObject<Map, Open, Depth extends readonly unknown[]> = [keyof Map] extends [never]
  ? Open extends false
    ? Record<string, never>
    : Record<string, JsonValue>
  : ParameterMap extends Map
    ? Record<string, JsonValue>
    : Open extends false
      ? Members<Map, Depth>
      : Members<Map, Depth> & Record<string, JsonValue>

type Members<Map, Depth extends readonly unknown[]> = Simplify<
  { -readonly [Name in RequiredNames<Map>]: Infer<Map[Name], Depth> } & {
    -readonly [Name in Exclude<keyof Map, RequiredNames<Map>>]?: Infer<Map[Name], Depth>
  }
>

type RequiredNames<Map> = {
  [Name in keyof Map]: Map[Name] extends { readonly required: true } ? Name : never
}[keyof Map]

type Simplify<Type> = { [Key in keyof Type]: Type[Key] }
