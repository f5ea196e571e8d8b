import { Refused } from './refused.js'

/** Characters compared for one import: patterns and names that go on for ever must not hold up those who wait. */
const maxSteps = 20_000_000

/**
 * Which operations are meant: those with a name that an `include` matches (absent: all), and none that an `exclude` does. In a pattern
 * `*` stands for any text. Throws `Refused` when it takes too long to tell.
 */
export class Selector {
  #include
  #exclude
  #steps = 0

  /** @param {import('./import-job.ts').Selection} selection */
  constructor({ include, exclude = [] }) {
    this.#include = include
    this.#exclude = exclude
  }

  /** Whether no name matters. */
  get takesAll() {
    return this.#include === undefined && this.#exclude.length === 0
  }

  /** @param {readonly string[]} names */
  isMeant(names) {
    return (this.#include === undefined || this.#any(names, this.#include)) && !this.#any(names, this.#exclude)
  }

  /** @param {readonly string[]} names @param {readonly string[]} patterns */
  #any(names, patterns) {
    return patterns.some((pattern) => names.some((name) => this.#matches(name, pattern)))
  }

  /**
   * Goes back to the last `*` alone, so that no pattern takes more steps than pattern times name.
   * @param {string} name @param {string} pattern
   */
  #matches(name, pattern) {
    let at = 0
    let of = 0
    let star = -1
    let resume = 0
    this.#step()
    while (at < name.length) {
      this.#step()
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

  #step() {
    this.#steps += 1
    if (this.#steps > maxSteps) throw new Refused('The patterns of "include" and "exclude" take too long to match.')
  }
}
