import { createHash } from 'node:crypto'
import type { Config } from '../../server/config/schema.ts'
import { canonicalJson } from '../../server/json/canonical.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import { type ArgumentTest, readCondition, readPath } from './permissions-arguments.ts'
import { allows, CommandLine, concerns, readWords } from './permissions-command.ts'
import { wildcard } from './wildcard.ts'

/** The configuration’s section, as docs/permissions.md describes it. */
export type PermissionsConfig = Config['permissions']
type RuleConfig = PermissionsConfig['rules'][number]
export type Kind = RuleConfig['decision']

/** What the rules are asked about. */
export interface PermissionCall {
  readonly name: string
  readonly arguments: JsonValue | undefined
  /** Ids of the scopes that the call is in, from the root ancestor to its own; the global one counts for nothing here. */
  readonly scopes: readonly string[]
}

/** What becomes of a call, and why; `rule` is absent when none matched. */
export interface Permission {
  readonly kind: Kind
  readonly rule?: string
  readonly reason: string
}

interface Rule {
  readonly name: string
  readonly decision: Kind
  readonly reason: string
  matches(call: PermissionCall, line: CommandLine): boolean
}

/** The rules of a configuration, read once. The constructor throws for a rule that cannot be meant, naming its place. */
export class Permissions {
  readonly #config: PermissionsConfig
  readonly #global: readonly Rule[]
  readonly #scopes: ReadonlyMap<string, readonly Rule[]>

  constructor(config: PermissionsConfig) {
    this.#config = config
    this.#global = readRules(config.rules, 'permissions.rules')
    this.#scopes = new Map(
      Object.entries(config.scopes).map(([id, rules]) => {
        const place = `permissions.scopes[${JSON.stringify(id)}]`
        if (id === 'global') throw new Error(`${place}: the rules of the global scope are permissions.rules`)
        return [id, readRules(rules, place)]
      })
    )
  }

  /** The first rule that matches: those of the nearest scope first, the global ones last; else the default. */
  decide(call: PermissionCall): Permission {
    const line = new CommandLine(valueOf(call.arguments, 'command'))
    for (const id of [...call.scopes.toReversed(), undefined]) {
      const rules = id === undefined ? this.#global : (this.#scopes.get(id) ?? [])
      const rule = rules.find((candidate) => candidate.matches(call, line))
      if (rule !== undefined) return { kind: rule.decision, rule: rule.name, reason: rule.reason }
    }
    const kind = this.#config.default
    return { kind, reason: `no permission rule matches this call, and the default is ${kind}` }
  }

  /** Digest of the rules in force for the scopes of this chain, from the root ancestor on: what an approval is bound to. */
  policyVersionOf(scopes: readonly string[]): string {
    const { rules, scopes: byScope, default: fallback } = this.#config
    const own = scopes.toReversed().flatMap((id) => (Object.hasOwn(byScope, id) ? (byScope[id] ?? []) : []))
    return createHash('sha256')
      .update(canonicalJson([[...own, ...rules], fallback] as unknown as JsonValue))
      .digest('hex')
  }
}

function valueOf(args: JsonValue | undefined, key: string): JsonValue | undefined {
  if (typeof args !== 'object' || args === null || Array.isArray(args) || !Object.hasOwn(args, key)) return undefined
  return args[key]
}

function readRules(rules: readonly RuleConfig[], list: string): Rule[] {
  const places = new Map<string, string>()
  return rules.map((rule, index) => {
    const place = `${list}[${index}]`
    const other = places.get(rule.name)
    if (other !== undefined) throw new Error(`${place}.name: "${rule.name}" is the name of ${other} too`)
    places.set(rule.name, place)
    return readRule(rule, place)
  })
}

function readRule(rule: RuleConfig, place: string): Rule {
  const { name, decision, command } = rule
  const failAt = (key: string, why: string): never => {
    throw new Error(`${place}.${key}: ${why}`)
  }
  const patterns = typeof rule.tools === 'string' ? [rule.tools] : rule.tools
  const tools = patterns.map(wildcard)
  const isForShell = tools.some((matches) => matches('bash') || matches('pwsh'))
  if (command !== undefined && patterns.some((pattern) => pattern !== 'bash')) {
    failAt('tools', 'a rule with a command is for the tool "bash" alone')
  }

  const isAllow = decision === 'allow'
  const conditions = (rule.arguments ?? []).map((condition, index): ArgumentTest => {
    const key = `arguments[${index}]`
    const isCommandText = isForShell && readPath(condition.path)?.[0] === 'command'
    if (isCommandText && (isAllow || condition.startsWith !== undefined)) {
      failAt(key, 'the text of a command says too little of what it runs: use "command", which there is for "bash"')
    }
    return readCondition(condition, (test, why) => failAt(test === '' ? key : `${key}.${test}`, why))
  })
  const words = command && readWords(command.words, isAllow, (path, why) => failAt(`command.${path}`, why))

  return {
    name,
    decision,
    reason: `the permission rule "${name}" says ${decision}${rule.reason === undefined ? '' : `: ${rule.reason}`}`,
    matches: (call, line) =>
      tools.some((matches) => matches(call.name)) &&
      conditions.every((holds) => holds(call.arguments, !isAllow)) &&
      (words === undefined || (isAllow ? allows(words, line) : concerns(words, line)))
  }
}
