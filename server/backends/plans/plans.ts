/** One item of a plan. */
export interface Todo {
  content: string
  status: 'pending' | 'in_progress' | 'completed'
}

/** The plan of each session: what its last `todo/write` event says, until its next turn starts (backends.md §7). */
export interface Plans {
  /** Replaces the plan. Rejects, with nothing logged, for a call without a session; or when it cannot be stored. */
  write(agent: object | undefined, todos: readonly Todo[]): Promise<void>
}

declare module '../../services.ts' {
  interface Services {
    plans: Plans
  }
}
