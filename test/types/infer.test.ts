import { describe, expectTypeOf, it } from 'vitest'
import type { JsonObject, JsonValue } from '../../server/json/lossless.ts'
import type { InferParameters, InferValue } from '../../server/schema/infer.ts'
import type { ParameterMap, ParameterSpec, ValueSpec } from '../../server/schema/spec.ts'

// The compiler is the test: `tsc` fails where a type is not exactly as stated.
const specOf = <const Spec extends ValueSpec>(spec: Spec): Spec => spec
const mapOf = <const Map extends ParameterMap>(map: Map): Map => map

type Open = Record<string, JsonValue>

describe('InferValue (core.md §4.8) [core-4.8]', () => {
  it('scalars and their literals', () => {
    type Of<Spec extends ValueSpec> = InferValue<Spec>
    expectTypeOf<Of<{ type: 'string' }>>().toEqualTypeOf<string>()
    expectTypeOf<Of<{ type: 'number' }>>().toEqualTypeOf<number>()
    expectTypeOf<Of<{ type: 'integer' }>>().toEqualTypeOf<number>()
    expectTypeOf<Of<{ type: 'boolean' }>>().toEqualTypeOf<boolean>()
    expectTypeOf<Of<{ type: 'null' }>>().toEqualTypeOf<null>()
    expectTypeOf<Of<{ type: 'json' }>>().toEqualTypeOf<JsonValue>()
    expectTypeOf<Of<{ type: 'string'; enum: ['a', 'b'] }>>().toEqualTypeOf<'a' | 'b'>()
    expectTypeOf<Of<{ type: 'string'; enum: ['a', 'b']; const: 'a' }>>().toEqualTypeOf<'a'>()
    expectTypeOf<Of<{ type: 'integer'; const: 3 }>>().toEqualTypeOf<3>()
    expectTypeOf<Of<{ type: 'boolean'; const: false }>>().toEqualTypeOf<false>()
    expectTypeOf<Of<{ type: 'string'; default: 'a'; description: 'd' }>>().toEqualTypeOf<string>()
  })

  it('literals of a spec that is written in place', () => {
    const mode = specOf({ type: 'string', enum: ['r', 'w'] })
    expectTypeOf<InferValue<typeof mode>>().toEqualTypeOf<'r' | 'w'>()
    const either = specOf({
      oneOf: [
        { type: 'array', items: { type: 'null' } },
        { type: 'integer', const: 2 }
      ]
    })
    expectTypeOf<InferValue<typeof either>>().toEqualTypeOf<null[] | 2>()
  })

  it('arrays', () => {
    expectTypeOf<InferValue<{ type: 'array' }>>().toEqualTypeOf<JsonValue[]>()
    expectTypeOf<InferValue<{ type: 'array'; items: { type: 'number' } }>>().toEqualTypeOf<number[]>()
    expectTypeOf<InferValue<{ type: 'array'; items: { type: 'array'; items: { type: 'null' } } }>>().toEqualTypeOf<
      null[][]
    >()
  })

  it('unions', () => {
    type Union = InferValue<{
      oneOf: [{ type: 'string' }, { type: 'array'; items: { type: 'integer' } }, { type: 'null' }]
    }>
    expectTypeOf<Union>().toEqualTypeOf<string | number[] | null>()
  })

  it('objects: open, closed, without properties', () => {
    interface Members {
      readonly a: { readonly type: 'string'; readonly required: true }
      readonly b: { readonly type: 'number' }
    }
    type Closed = InferValue<{ type: 'object'; properties: Members; additionalProperties: false }>
    type Opened = InferValue<{ type: 'object'; properties: Members; additionalProperties: true }>
    expectTypeOf<Closed>().toEqualTypeOf<{ a: string; b?: number }>()
    expectTypeOf<Opened>().toEqualTypeOf<{ a: string; b?: number } & Open>()
    expectTypeOf<Opened['b']>().toEqualTypeOf<number | undefined>()
    expectTypeOf<Opened['anything']>().toEqualTypeOf<JsonValue>()
    expectTypeOf<InferValue<{ type: 'object'; additionalProperties: true }>>().toEqualTypeOf<Open>()

    type Empty = InferValue<{ type: 'object'; additionalProperties: false }>
    const empty = {}
    expectTypeOf(empty).toExtend<Empty>()
    expectTypeOf<{ a: 1 }>().not.toExtend<Empty>()
    expectTypeOf<InferValue<{ type: 'object'; properties: {}; additionalProperties: false }>>().toEqualTypeOf<Empty>()
  })

  it('what it infers is JSON', () => {
    type Spec = {
      type: 'object'
      properties: { a: { type: 'string'; required: true }; b: { type: 'array'; items: { type: 'json' } } }
      additionalProperties: false
    }
    expectTypeOf<InferValue<Spec>>().toExtend<JsonValue>()
    expectTypeOf<InferValue<Spec>>().toExtend<JsonObject>()
  })

  it('of a spec known only as a spec, JSON', () => {
    expectTypeOf<InferValue<ValueSpec>>().toEqualTypeOf<JsonValue>()
    expectTypeOf<InferValue<ParameterSpec>>().toEqualTypeOf<JsonValue>()
    expectTypeOf<InferParameters<ParameterMap>>().toEqualTypeOf<Open>()
    expectTypeOf<InferValue<{ type: 'array'; items: ValueSpec }>>().toEqualTypeOf<JsonValue[]>()
  })
})

describe('InferParameters', () => {
  it('required and optional, in an open object', () => {
    const map = mapOf({
      path: { type: 'string', required: true },
      mode: { type: 'string', enum: ['r', 'w'], default: 'r' },
      opts: {
        type: 'object',
        properties: { deep: { type: 'boolean', required: true } },
        additionalProperties: false,
        required: true
      }
    })
    type Arguments = InferParameters<typeof map>
    expectTypeOf<Arguments>().toEqualTypeOf<{ path: string; opts: { deep: boolean }; mode?: 'r' | 'w' } & Open>()
    expectTypeOf<Arguments['mode']>().toEqualTypeOf<'r' | 'w' | undefined>()
    expectTypeOf<{ path: 'p'; opts: { deep: true } }>().toExtend<Arguments>()
    expectTypeOf<{ path: 'p' }>().not.toExtend<Arguments>()
  })

  it('of no parameters', () => {
    expectTypeOf<InferParameters<{}>>().toExtend<Open>()
    expectTypeOf<{}>().toExtend<InferParameters<{}>>()
  })
})

describe('16 levels of containers [core-4.8]', () => {
  type Nested<Depth extends number, Count extends 0[] = []> = Count['length'] extends Depth
    ? { type: 'string' }
    : { type: 'array'; items: Nested<Depth, [...Count, 0]> }
  type Arrays<Depth extends number, Leaf, Count extends 0[] = []> = Count['length'] extends Depth
    ? Leaf
    : Arrays<Depth, Leaf, [...Count, 0]>[]

  it('are exact, then comes JSON', () => {
    expectTypeOf<InferValue<Nested<15>>>().toEqualTypeOf<Arrays<15, string>>()
    expectTypeOf<InferValue<Nested<16>>>().toEqualTypeOf<Arrays<16, string>>()
    expectTypeOf<InferValue<Nested<17>>>().toEqualTypeOf<Arrays<16, JsonValue>>()
    expectTypeOf<InferValue<Nested<40>>>().toEqualTypeOf<Arrays<16, JsonValue>>()
  })

  it('unions are no level, the object of the parameters is one', () => {
    type Deep = InferValue<{ oneOf: [{ oneOf: [Nested<16>, { type: 'null' }] }, { type: 'null' }] }>
    expectTypeOf<Deep>().toEqualTypeOf<Arrays<16, string> | null>()
    expectTypeOf<InferParameters<{ a: Nested<15> & { required: true } }>['a']>().toEqualTypeOf<Arrays<15, string>>()
    expectTypeOf<InferParameters<{ a: Nested<16> & { required: true } }>['a']>().toEqualTypeOf<Arrays<15, JsonValue>>()
  })
})

describe('what a spec may be', () => {
  it('is checked as it is written', () => {
    const accept = (_spec: ValueSpec): void => {}
    const acceptMap = (_map: ParameterMap): void => {}
    accept({ type: 'object', additionalProperties: false })
    // @ts-expect-error -- additionalProperties must be written out
    accept({ type: 'object' })
    // @ts-expect-error -- required belongs to members of a property map
    accept({ type: 'string', required: true })
    // @ts-expect-error -- required is true or absent
    acceptMap({ a: { type: 'string', required: false } })
    // @ts-expect-error -- a keyword outside the subset
    accept({ type: 'string', pattern: 'x' })
    // @ts-expect-error -- type beside oneOf
    accept({ type: 'string', oneOf: [] })
    // @ts-expect-error -- no such type
    accept({ type: 'weird' })
    // @ts-expect-error -- a literal of another type
    accept({ type: 'number', enum: ['1'] })
    acceptMap({ a: { type: 'json', required: true, default: [{ b: null }] } })
  })
})
