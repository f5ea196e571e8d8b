import { RE2JS } from 're2js'
import type { Config } from '../../server/config/schema.ts'
import { canonicalJson } from '../../server/json/canonical.ts'
import type { JsonValue } from '../../server/json/lossless.ts'

type Condition = NonNullable<Config['permissions']['rules'][number]['arguments']>[number]
type Step = string | number

/** Says whether a condition holds for a call's arguments. `whenUnsure` is the answer where looking would take too long. */
export type ArgumentTest = (args: JsonValue | undefined, whenUnsure: boolean) => boolean

/** An expression takes up to a few milliseconds for each 1,000 characters, during which the server does nothing else. */
const longestSearched = 65_536

/** Reads a path such as `files[0].name` or `headers["x-a.b"]`. Undefined when it is none. */
export function readPath(path: string): Step[] | undefined {
  const steps: Step[] = []
  const step = /(?:^|(?<!^)\.)([^.[\]"\s]+)|\[(\d{1,9})\]|\[("(?:[^"\\]|\\.)*")\]/gsy
  while (step.lastIndex < path.length) {
    const [, name, index, quoted] = step.exec(path) ?? []
    if (name !== undefined) steps.push(name)
    else if (index !== undefined) steps.push(Number(index))
    else if (quoted !== undefined) {
      const key = parsed(quoted)
      if (key === undefined) return undefined
      steps.push(key)
    } else return undefined
  }
  return steps.length === 0 ? undefined : steps
}

function parsed(quoted: string): string | undefined {
  try {
    return JSON.parse(quoted) as string
  } catch {
    return undefined
  }
}

/** What stands at the path, by own members only; undefined when nothing does. */
function valueAt(args: JsonValue | undefined, steps: readonly Step[]): JsonValue | undefined {
  let at = args
  for (const step of steps) {
    if (typeof at !== 'object' || at === null || Array.isArray(at) !== (typeof step === 'number')) return undefined
    if (!Object.hasOwn(at, step)) return undefined
    at = (at as Record<Step, JsonValue>)[step]
  }
  return at
}

/** The test that a condition stands for; every key of it must hold. Calls `fail(key, why)`, which throws, for what cannot be meant. */
export function readCondition(condition: Condition, fail: (key: string, why: string) => never): ArgumentTest {
  const steps = readPath(condition.path) ?? fail('path', 'is no path such as files[0].name or headers["x-a.b"]')
  const { absent, exists, equals, oneOf, matches, startsWith, lessThan, moreThan } = condition
  const tests: ((value: JsonValue, whenUnsure: boolean) => boolean)[] = []
  if (Object.hasOwn(condition, 'equals')) tests.push(isOneOf([equals]))
  if (oneOf !== undefined) tests.push(isOneOf(oneOf))
  if (matches !== undefined) tests.push(matching(matches, fail))
  if (startsWith !== undefined) tests.push((value) => typeof value === 'string' && value.startsWith(startsWith))
  if (lessThan !== undefined) tests.push((value) => typeof value === 'number' && value < lessThan)
  if (moreThan !== undefined) tests.push((value) => typeof value === 'number' && value > moreThan)
  if (absent !== undefined) {
    if (tests.length > 0 || exists !== undefined) fail('absent', 'excludes every other test of the same value')
    return (args) => valueAt(args, steps) === undefined
  }
  if (tests.length === 0 && exists === undefined) {
    fail('', 'tests nothing: give equals, oneOf, matches, startsWith, exists, absent, lessThan or moreThan')
  }
  return (args, whenUnsure) => {
    const value = valueAt(args, steps)
    return value !== undefined && tests.every((test) => test(value, whenUnsure))
  }
}

function isOneOf(values: readonly unknown[]): (value: JsonValue) => boolean {
  const known = new Set(values.map((value) => canonicalJson(value as JsonValue)))
  return (value) => known.has(canonicalJson(value))
}

function matching(pattern: string, fail: (key: string, why: string) => never) {
  let expression: RE2JS
  try {
    // The dot takes line breaks too: else a line break in a value would be enough to get past a `.*`.
    expression = RE2JS.compile(pattern, RE2JS.DOTALL)
  } catch (error) {
    return fail('matches', (error as Error).message)
  }
  return (value: JsonValue, whenUnsure: boolean): boolean => {
    if (typeof value !== 'string') return false
    return value.length > longestSearched ? whenUnsure : expression.testExact(value)
  }
}
