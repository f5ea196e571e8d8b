import { deepFreeze } from '../json/deep-freeze.ts'
import type { JsonValue } from '../json/lossless.ts'
import { formatPath } from '../json/path.ts'
import { stringifyJson } from '../json/serialize.ts'
import { JobThread, type Killed } from '../threads/job-thread.ts'
import { checkWireSchema } from './ajv-limits.ts'
import type { Answer, Program, Request, Violation } from './ajv-job.ts'
import type { JsonSchema } from './spec.ts'
import { JsonSchemaError } from './supported.ts'

/** A schema that came from outside, held to the limits and known to compile (api.md §3). */
export interface WireSchema {
  /** What was checked: a frozen copy of what was given. */
  readonly schema: JsonSchema
  /**
   * How a value breaks the schema; empty means valid. One violation, its path beginning with `rootLabel` as in core.md §3.13, since
   * the check ends at the first. A check that has to be cut short is a violation too. Rejects only once the server is closing, or if
   * no thread can be started.
   */
  validate(value: JsonValue, rootLabel: string): Promise<string[]>
}

/** What compiling may take, and checking a value (reliability.md §1.6). */
const defaultBudgetMs = 250
/** Parsing the text of a value takes time that no schema can add to: 1 ms for this many characters where it is slow. */
const charactersPerMs = 10_000
/**
 * A thread whose heap is full while it parses takes the whole process down, and parsing was seen to need 30 bytes for a character.
 * Only what runs after it, which V8 can stop, may meet the limit.
 */
const defaultHeapMb = 1_024
const charactersPerHeapMb = 16 * 1_024

/**
 * Compiles JSON Schemas (2020-12 and draft-07) that somebody else wrote, such as those of tools registered over the wire. A hostile one
 * can neither stall the server nor fill its memory: limits come first, ajv runs in a thread that is killed and replaced, and the
 * thread forgets what was not used for long and compiles it again when it is.
 */
export class WireSchemas {
  /** New schemas have a thread of their own: hostile ones, sent one after another, would keep running calls from being checked. */
  readonly #compiling: JobThread<Request, Answer>
  readonly #checking: JobThread<Request, Answer>
  readonly #budgetMs: number
  readonly #maxCharacters: number
  #lastKey = 0

  constructor({ budgetMs = defaultBudgetMs, heapMb = defaultHeapMb }: { budgetMs?: number; heapMb?: number } = {}) {
    const entry = new URL('./ajv-thread.js', import.meta.url)
    this.#compiling = new JobThread({ entry, name: 'schemas', heapMb })
    this.#checking = new JobThread({ entry, name: 'schemas', heapMb })
    this.#budgetMs = budgetMs
    this.#maxCharacters = heapMb * charactersPerHeapMb
  }

  /** Throws `JsonSchemaError` (`UNSUPPORTED_SCHEMA`) naming the place, its path beginning with `root`. */
  async compile(given: unknown, root = 'schema'): Promise<WireSchema> {
    const { schema, program } = checkWireSchema(given, root)
    const key = (this.#lastKey += 1)
    const [outcome] = await Promise.all([
      judge(this.#compiling, { key, program }, this.#budgetMs),
      // What it does not know costs it nothing; its start must not count against the deadline of the first call.
      this.#checking.run({ key }, this.#budgetMs)
    ])
    const violations = violationsOf(outcome, root, 'to compile')
    if (violations.length > 0) throw new JsonSchemaError(violations)
    return {
      schema: deepFreeze(schema),
      validate: (value, rootLabel) => this.#validate(key, program, value, rootLabel)
    }
  }

  /** Ends the threads and waits for them; what still waits for an answer rejects. */
  async close(): Promise<void> {
    await Promise.all([this.#compiling.close(), this.#checking.close()])
  }

  async #validate(key: number, program: Program, value: JsonValue, rootLabel: string): Promise<string[]> {
    const text = stringifyJson(value)
    if (text.length > this.#maxCharacters) return [`"${formatPath(rootLabel, [])}" is too large to check`]
    const budgetMs = this.#budgetMs + text.length / charactersPerMs
    const outcome = await this.#checking.run({ key, value: text }, budgetMs)
    // Not met yet, forgotten for others, or with a thread that was killed.
    const verdict =
      outcome.type === 'forgotten'
        ? await judge(this.#checking, { key, program, value: text }, this.#budgetMs + budgetMs)
        : outcome
    return violationsOf(verdict, rootLabel, 'to check')
  }
}

type Verdict = Exclude<Answer, { type: 'forgotten' }> | Killed

/** What comes with its program is not forgotten. */
const judge = async (
  thread: JobThread<Request, Answer>,
  request: Request & { program: Program },
  budgetMs: number
): Promise<Verdict> => (await thread.run(request, budgetMs)) as Verdict

function violationsOf(verdict: Verdict, root: string, work: string): string[] {
  if (verdict.type === 'valid') return []
  if (verdict.type === 'invalid') return [told(verdict.violation, root)]
  return [`"${formatPath(root, [])}" takes too ${verdict.type === 'late' ? 'long' : 'much memory'} ${work}`]
}

function told({ details, ...finding }: Violation, root: string): string {
  const line = ({ steps, text }: Omit<Violation, 'details'>): string => `"${formatPath(root, steps)}" ${text}`
  const reasons = new Set(details.map(line))
  return reasons.size === 0 ? line(finding) : `${line(finding)} (${[...reasons].join('; ')})`
}
