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
  readonly #thread: JobThread<Request, Answer>
  readonly #budgetMs: number
  readonly #maxCharacters: number
  #lastKey = 0

  constructor({ budgetMs = defaultBudgetMs, heapMb = defaultHeapMb }: { budgetMs?: number; heapMb?: number } = {}) {
    const entry = new URL('./ajv-thread.js', import.meta.url)
    this.#thread = new JobThread({ entry, name: 'schemas', heapMb })
    this.#budgetMs = budgetMs
    this.#maxCharacters = heapMb * charactersPerHeapMb
  }

  /** Throws `JsonSchemaError` (`UNSUPPORTED_SCHEMA`) naming the place, its path beginning with `root`. */
  async compile(given: unknown, root = 'schema'): Promise<WireSchema> {
    const { schema, program } = checkWireSchema(given, root)
    const key = (this.#lastKey += 1)
    const outcome = await this.#judge({ key, program }, this.#budgetMs)
    const violations = violationsOf(outcome, root, 'to compile')
    if (violations.length > 0) throw new JsonSchemaError(violations)
    return {
      schema: deepFreeze(schema),
      validate: (value, rootLabel) => this.#validate(key, program, value, rootLabel)
    }
  }

  /** Ends the thread and waits for it; what still waits for an answer rejects. */
  async close(): Promise<void> {
    await this.#thread.close()
  }

  async #validate(key: number, program: Program, value: JsonValue, rootLabel: string): Promise<string[]> {
    const text = stringifyJson(value)
    if (text.length > this.#maxCharacters) return [`"${formatPath(rootLabel, [])}" is too large to check`]
    const budgetMs = this.#budgetMs + text.length / charactersPerMs
    const outcome = await this.#thread.run({ key, value: text }, budgetMs)
    // Forgotten for others, or with a thread that was killed.
    const verdict =
      outcome.type === 'forgotten'
        ? await this.#judge({ key, program, value: text }, this.#budgetMs + budgetMs)
        : outcome
    return violationsOf(verdict, rootLabel, 'to check')
  }

  /** What comes with its program is not forgotten. */
  async #judge(request: Request & { program: Program }, budgetMs: number): Promise<Verdict> {
    return (await this.#thread.run(request, budgetMs)) as Verdict
  }
}

type Verdict = Exclude<Answer, { type: 'forgotten' }> | Killed

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
