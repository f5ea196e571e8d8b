import { stringifyJson } from '../json/serialize.ts'
import type { JsonValue } from '../json/lossless.ts'
import type { UserMessage } from '../tools/definition.ts'

interface QueuedContext {
  message: UserMessage
  /** An answer has carried it: each context appears in one (api.md §2). */
  isDelivered: boolean
}

/** The contexts that wait for a session's next step (core.md §24.1). They are stored with the session, so they outlive the server. */
export class ContextQueue {
  #entries: QueuedContext[]
  #version = 0

  constructor(stored: string | null = null) {
    this.#entries = stored === null ? [] : (JSON.parse(stored) as QueuedContext[])
  }

  /** Another number whenever the stored text is another one. */
  get version(): number {
    return this.#version
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0
  }

  add(message: UserMessage, isDelivered: boolean): void {
    this.#entries.push({ message, isDelivered })
    this.#version += 1
  }

  /** All of them, for the step that begins. */
  take(): UserMessage[] {
    if (this.isEmpty) return []
    const messages = this.#entries.map(({ message }) => message)
    this.clear()
    return messages
  }

  takeUndelivered(): UserMessage[] {
    const waiting = this.#entries.filter(({ isDelivered }) => !isDelivered)
    if (waiting.length > 0) this.#version += 1
    for (const entry of waiting) entry.isDelivered = true
    return waiting.map(({ message }) => message)
  }

  clear(): void {
    if (this.isEmpty) return
    this.#entries = []
    this.#version += 1
  }

  /** What the session's row holds; null when nothing waits. */
  toText(): string | null {
    return this.isEmpty ? null : stringifyJson(this.#entries as unknown as JsonValue)
  }
}
