import { hash, randomUUID } from 'node:crypto'
import { canonicalJson } from '../../server/json/canonical.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import type { PostDecision } from '../../server/pipeline/decisions.ts'
import type { Execution } from '../../server/pipeline/execution.ts'
import type { UserMessage } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'
import { wildcard } from './wildcard.ts'

/** When an agent is told that it repeats itself (core.md §26). */
export interface RepeatToolReminderOptions {
  /** Consecutive identical calls at which to remind, integers from 2 without duplicates. Default 3, 5, 8. */
  thresholds?: readonly number[]
  /** Names or `*` patterns of the tools watched; none means all. */
  include?: readonly string[]
  /** Names or `*` patterns of tools that neither count nor reset. Default `todo_write`. */
  exclude?: readonly string[]
  /** Characters of the arguments quoted, at least 1. Default 500. */
  argumentsPreviewChars?: number
}

const pluginName = 'repeat-tool-reminder'

/** Reminds, and no more: never refuses, never touches content. Throws at load for a bad option. */
export const repeatToolReminder = definePlugin(
  { name: pluginName },
  (
    tools,
    _services,
    {
      thresholds = [3, 5, 8],
      include = [],
      exclude = ['todo_write'],
      argumentsPreviewChars = 500
    }: RepeatToolReminderOptions
  ) => {
    const lowest = lowestOf(thresholds)
    if (!Number.isInteger(argumentsPreviewChars) || argumentsPreviewChars < 1) {
      throw new Error(`${pluginName}: argumentsPreviewChars must be an integer of at least 1`)
    }
    const included = include.map(wildcard)
    const excluded = exclude.map(wildcard)
    const isTracked = (name: string): boolean =>
      (included.length === 0 || included.some((matches) => matches(name))) && !excluded.some((matches) => matches(name))
    // Held by the live agent: what it repeated is forgotten with it.
    const chains = new WeakMap<object, { key: string; count: number }>()

    tools.addHook('postExecute', (exec, _result, next) => {
      const canonical = exec.agent !== undefined && isTracked(exec.name) ? canonicalOf(exec) : undefined
      if (exec.agent === undefined || canonical === undefined) return next()
      // A digest: the arguments themselves, megabytes perhaps, would be held for as long as the session lives.
      const key = hash('sha256', JSON.stringify(exec.name) + canonical, 'base64')
      const last = chains.get(exec.agent)
      const count = last?.key === key ? last.count + 1 : 1
      chains.set(exec.agent, { key, count })
      if (!thresholds.includes(count)) return next()
      const body =
        count === lowest ? shortReminder : detailedReminder(exec.name, count, preview(canonical, argumentsPreviewChars))
      const message = reminder(exec.name, count, body)
      return next().then((decision) => withReminder(decision, message))
    })

    tools.addHook('onStep', (agent, messages) => {
      if (messages.some(({ source }) => source.kind === 'user')) chains.delete(agent)
    })
  }
)

function lowestOf(thresholds: readonly number[]): number {
  if (thresholds.length === 0) throw new Error(`${pluginName}: thresholds must not be empty`)
  if (!thresholds.every((threshold) => Number.isInteger(threshold) && threshold >= 2)) {
    throw new Error(`${pluginName}: thresholds must be integers of at least 2`)
  }
  if (new Set(thresholds).size !== thresholds.length) throw new Error(`${pluginName}: thresholds must not repeat`)
  return Math.min(...thresholds)
}

/** Undefined when the arguments have no canonical form: then there is nothing to compare, and no reminder. */
function canonicalOf({ arguments: args }: Execution): string | undefined {
  try {
    return canonicalJson(args as JsonValue)
  } catch {
    return undefined
  }
}

function preview(canonical: string, limit: number): string {
  if (canonical.length <= limit) return canonical
  // Not through the middle of a character.
  const end = /[\uD800-\uDBFF]/.test(canonical.charAt(limit - 1)) ? limit - 1 : limit
  return `${canonical.slice(0, end)}… (+${canonical.length - end} more chars)`
}

const shortReminder =
  'An identical call is being repeated. Read its previous result again; if the work is not finished, change the approach or the arguments.'

const detailedReminder = (name: string, count: number, args: string): string =>
  [
    'An identical call is being repeated and makes no progress.',
    `Tool: ${name}`,
    `Consecutive identical calls: ${count}`,
    `Arguments: ${args}`,
    'Do not call it with these arguments again. Inspect the latest result, then do something else, or finish.'
  ].join('\n')

const reminder = (name: string, count: number, body: string): UserMessage => ({
  id: randomUUID(),
  role: 'user',
  content: [{ type: 'text', text: body }],
  source: { kind: 'plugin', plugin: pluginName, form: 'notice', summary: `${name} × ${count}` }
})

const withReminder = (decision: PostDecision, message: UserMessage): PostDecision => ({
  ...decision,
  additionalContexts: [message, ...(decision.additionalContexts ?? [])]
})
