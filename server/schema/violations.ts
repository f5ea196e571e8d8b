import { formatPath, stepsOf, type Trail } from '../json/path.ts'

/** Violations in the order they are found; their texts are made when somebody reads them. `limit` ends a hostile list. */
export class Violations {
  readonly #found: { readonly trail: Trail | undefined; readonly text: string }[] = []
  readonly #limit: number

  constructor(limit = Infinity) {
    this.#limit = limit
  }

  get count(): number {
    return this.#found.length
  }

  /** Whether the limit is reached; a walk stops looking then. */
  get isFull(): boolean {
    return this.#found.length >= this.#limit
  }

  add(trail: Trail | undefined, text: string): void {
    if (!this.isFull) this.#found.push({ trail, text })
  }

  /** One line each, `"value.rows[3]" must be a string`, the path beginning with `root`. */
  texts(root: string): string[] {
    return this.#found.map(({ trail, text }) => `"${formatPath(root, stepsOf(trail))}" ${text}`)
  }
}
