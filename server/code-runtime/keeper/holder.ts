import type { FromKeeper, KeeperOptions, ToKeeper } from './messages.ts'
import { ProcessHolder } from './process-holder.ts'
import { ThreadHolder } from './thread-holder.ts'

/** What a keeper says that is not for its holder alone. */
export type Heard = Exclude<FromKeeper, { type: 'pong' }>

/** What is heard of a holder: after `lost` nothing more. */
export interface HolderEvents {
  readonly message: (message: Heard) => void
  readonly lost: (error: Error) => void
}

/** Where a keeper's worlds are held. It keeps the server's process alive only between `ref`, as it begins, and `unref`. */
export interface Holder {
  post(message: ToKeeper): void
  /** Resolves when there is room for more to say; undefined if there is. */
  room(): Promise<void> | undefined
  ref(): void
  unref(): void
  /** Ends it at once. */
  end(): Promise<void>
}

/** Worlds that are processes are held by a process too (keeper-process.js), others by a thread. */
export function openHolder({ source, budgets, maxSilenceMs }: KeeperOptions, events: HolderEvents): Holder {
  return source.type === 'thread'
    ? new ThreadHolder(budgets, events)
    : new ProcessHolder({ type: 'options', launches: source.launches, budgets }, events, maxSilenceMs)
}
