import { RequestError } from '../../errors.ts'

export interface Selection {
  readonly include?: readonly string[]
  readonly exclude?: readonly string[]
}

/** Characters compared for one import: patterns and names that go on for ever must not hold up the server. */
const maxSteps = 20_000_000

/**
 * Which operations are meant: those with a name that an `include` matches (absent: all), and none that an `exclude` does. In a pattern
 * `*` stands for any text. Throws `INVALID_DEFINITION` when it takes too long to tell.
 */
export class Selector {
  readonly #include: readonly string[] | undefined
  readonly #exclude: readonly string[]
  #steps = 0

  constructor({ include, exclude = [] }: Selection) {
    this.#include = include
    this.#exclude = exclude
  }

  isMeant(names: readonly string[]): boolean {
    return (this.#include === undefined || this.#any(names, this.#include)) && !this.#any(names, this.#exclude)
  }

  #any(names: readonly string[], patterns: readonly string[]): boolean {
    return patterns.some((pattern) => names.some((name) => this.#matches(name, pattern)))
  }

  /** Goes back to the last `*` alone, so that no pattern takes more steps than pattern times name. */
  #matches(name: string, pattern: string): boolean {
    let at = 0
    let of = 0
    let star = -1
    let resume = 0
    while (at < name.length) {
      this.#steps += 1
      if (this.#steps > maxSteps) {
        throw new RequestError('INVALID_DEFINITION', 'The patterns of "include" and "exclude" take too long to match.')
      }
      if (pattern[of] === '*') {
        star = of
        of += 1
        resume = at
      } else if (pattern[of] === name[at]) {
        of += 1
        at += 1
      } else if (star !== -1) {
        of = star + 1
        resume += 1
        at = resume
      } else return false
    }
    while (pattern[of] === '*') of += 1
    return of === pattern.length
  }
}
