import { Type } from '@sinclair/typebox'
import type { Secret } from './secret.ts'

export const integer = (fallback: number, minimum: number, description: string, maximum = Number.MAX_SAFE_INTEGER) =>
  Type.Integer({ default: fallback, minimum, maximum, description })

/** Node's timers fire at once beyond 2^31 - 1 ms, so no duration may be longer. */
export const durationMs = (fallback: number, description: string, minimum = 1) =>
  integer(fallback, minimum, description, 2_147_483_647)

export const bytes = (fallback: number, description: string) => integer(fallback, 1, description)
export const strings = (description: string, fallback: string[] = []) =>
  Type.Array(Type.String({ minLength: 1 }), { default: fallback, description })
export const choice = <const T extends string[]>(values: [...T], fallback: T[number], description: string) =>
  Type.Unsafe<T[number]>({ ...Type.String({ default: fallback, description }), enum: values })
export const secret = (description: string, env?: string) =>
  Type.Unsafe<Secret>({ ...Type.String({ minLength: 1, description }), secret: true, ...(env && { env }) })
