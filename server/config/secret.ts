import { inspect } from 'node:util'

/**
 * A value that must not be printed (reliability.md §1.10). Logging it, inspecting it, putting it in a string or in JSON shows
 * `[secret]`; only `reveal()` gives the text.
 */
export class Secret {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  reveal(): string {
    return this.#text
  }

  toString(): string {
    return '[secret]'
  }

  toJSON(): string {
    return '[secret]'
  }

  [inspect.custom](): string {
    return '[secret]'
  }
}
