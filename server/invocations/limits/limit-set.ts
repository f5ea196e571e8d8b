/** On average `requests` in each `perMs`, and at most `burst` at once (default: `requests`): a token bucket. */
export interface Rate {
  readonly requests: number
  readonly perMs: number
  readonly burst?: number
}

/** What holds for one scope, tool or token. What is absent has no limit. */
export interface LimitSet {
  /** Requests running at a time. */
  readonly concurrency?: number
  /** Requests waiting for their turn. */
  readonly queue?: number
  /** All of them hold. */
  readonly rates?: readonly Rate[]
}

/** The limits of a scope: they count its requests and those of all below it. Those of `tools` count the ones that name the tool. */
export interface ScopeLimits extends LimitSet {
  readonly tools?: Readonly<Record<string, LimitSet>>
}

/** Settings of `calls` (reliability.md §3.1). `maxQueued` counts the requests of all scopes. */
export interface AdmissionLimits {
  readonly maxConcurrent: number
  /** Of one scope, those below it left out; a scope with a `concurrency` of its own has that instead. */
  readonly maxConcurrentPerScope: number
  readonly maxQueued: number
  readonly queueTimeoutMs: number
}

/** Settings of `limits`. */
export interface LimitSettings {
  /** Of each scope that has none of its own, those below it left out. */
  readonly perScope: Pick<LimitSet, 'queue' | 'rates'>
  /** By the scope's id. */
  readonly scopes: Readonly<Record<string, ScopeLimits>>
  /** By the tool's name, over all scopes. */
  readonly tools: Readonly<Record<string, LimitSet>>
  readonly perToken: LimitSet
  /** By the token's id, in place of `perToken`. */
  readonly tokens: Readonly<Record<string, LimitSet>>
}

export const noLimits: LimitSettings = { perScope: {}, scopes: {}, tools: {}, perToken: {}, tokens: {} }
