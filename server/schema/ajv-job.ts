import type { PathStep } from '../json/path.ts'

/** The versions of JSON Schema that a wire tool may be written in (api.md §3). */
export type Dialect = '2020-12' | 'draft-07'

/** What the thread compiles: a schema within the limits. */
export interface Program {
  readonly dialect: Dialect
  /** JSON text of the schema as given: what is held to the rules of its dialect. */
  readonly given: string
  /** JSON text of what ajv is to compile in its place. */
  readonly text: string
  /** Each pattern in it and where it stands, for the linear engine to judge. */
  readonly patterns: readonly { readonly steps: readonly PathStep[]; readonly pattern: string }[]
}

/** One job: to compile, to check a value (as JSON text), or both. Without its program a schema that is not kept is `forgotten`. */
export interface Request {
  readonly key: number
  readonly program?: Program
  readonly value?: string
}

interface Finding {
  readonly steps: readonly PathStep[]
  readonly text: string
}

/** What is wrong in the value or in the schema itself; `details` say why no branch of a union matched. */
export interface Violation extends Finding {
  readonly details: readonly Finding[]
}

export type Answer =
  | { readonly type: 'valid' }
  | { readonly type: 'invalid'; readonly violation: Violation }
  | { readonly type: 'forgotten' }
