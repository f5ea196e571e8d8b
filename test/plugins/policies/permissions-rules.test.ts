import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type PermissionsConfig, Permissions } from '../../../plugins/policies/permissions-rules.ts'
import { ConfigError, loadConfig } from '../../../server/config/load.ts'
import type { JsonValue } from '../../../server/json/lossless.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

type Rules = PermissionsConfig['rules']

const config = (more: Partial<PermissionsConfig>): PermissionsConfig => ({
  default: 'allow',
  rules: [],
  scopes: {},
  ...more
})
const decide = (more: Partial<PermissionsConfig>, name: string, args: JsonValue = {}, scopes: string[] = []) => {
  const { kind, rule } = new Permissions(config(more)).decide({ name, arguments: args, scopes })
  return rule === undefined ? kind : `${kind} by ${rule}`
}

describe('the rules of the permissions', () => {
  it('the first one that matches decides, else the default', () => {
    const rules: Rules = [
      { name: 'a', decision: 'allow', tools: 'read' },
      { name: 'b', decision: 'ask', tools: ['read*', 'glob'] },
      { name: 'c', decision: 'deny', tools: '*_x' }
    ]
    expect(decide({ rules }, 'read')).toBe('allow by a')
    expect(decide({ rules }, 'read_x')).toBe('ask by b')
    expect(decide({ rules }, 'glob')).toBe('ask by b')
    expect(decide({ rules }, 'glob_x')).toBe('deny by c')
    expect(decide({ rules }, 'other')).toBe('allow')
    expect(decide({ rules, default: 'ask' }, 'other')).toBe('ask')
    expect(decide({ rules, default: 'deny' }, 'Read')).toBe('deny')
    expect(decide({}, 'anything')).toBe('allow')
  })

  it('those of the nearest scope come first, the global ones last', () => {
    const rule = (name: string, tools: string): Rules[number] => ({ name, decision: 'deny', tools })
    const more = {
      rules: [rule('g', '*')],
      scopes: { team: [rule('t', 'a*')], agent: [rule('n', 'ab')], other: [rule('o', '*')] }
    }
    const chain = ['global', 'team', 'between', 'agent']
    expect(decide(more, 'ab', {}, chain)).toBe('deny by n')
    expect(decide(more, 'ac', {}, chain)).toBe('deny by t')
    expect(decide(more, 'b', {}, chain)).toBe('deny by g')
    expect(decide(more, 'ab')).toBe('deny by g')
    expect(decide({ scopes: { agent: [] } }, 'ab', {}, ['__proto__', 'constructor', 'agent'])).toBe('allow')
  })

  it('every condition of a rule must hold', () => {
    const rules: Rules = [
      {
        name: 'a',
        decision: 'deny',
        tools: 'write',
        arguments: [
          { path: 'path', startsWith: '/etc/' },
          { path: 'dry', absent: true }
        ]
      }
    ]
    expect(decide({ rules }, 'write', { path: '/etc/passwd' })).toBe('deny by a')
    expect(decide({ rules }, 'write', { path: '/etc/passwd', dry: true })).toBe('allow')
    expect(decide({ rules }, 'write', { path: '/tmp/x' })).toBe('allow')
    expect(decide({ rules }, 'write', null)).toBe('allow')
  })

  it('what cannot be looked at for its length meets a deny and no allow', () => {
    const rules = (decision: 'allow' | 'deny'): Rules => [
      { name: 'a', decision, tools: 'write', arguments: [{ path: 'text', matches: 'x*' }] }
    ]
    const args = { text: 'y'.repeat(70_000) }
    expect(decide({ rules: rules('deny') }, 'write', args)).toBe('deny by a')
    expect(decide({ rules: rules('allow'), default: 'ask' }, 'write', args)).toBe('ask')
  })

  it('commands are looked at for bash only, and read by its own argument', () => {
    const rules: Rules = [
      { name: 'status', decision: 'allow', tools: 'bash', command: { words: ['git', 'status'] } },
      { name: 'no-git', decision: 'deny', tools: 'bash', command: { words: ['git'] } },
      {
        name: 'ask',
        decision: 'ask',
        tools: 'bash',
        command: { words: ['npm'] },
        arguments: [{ path: 'workdir', exists: true }]
      }
    ]
    expect(decide({ rules }, 'bash', { command: 'git status' })).toBe('allow by status')
    expect(decide({ rules }, 'bash', { command: 'git status; ls' })).toBe('deny by no-git')
    expect(decide({ rules }, 'bash', { command: 'ls' })).toBe('allow')
    expect(decide({ rules }, 'bash', { command: 'npm i' })).toBe('allow')
    expect(decide({ rules }, 'bash', { command: 'npm i', workdir: 'x' })).toBe('ask by ask')
    expect(decide({ rules }, 'bash', {})).toBe('deny by no-git')
    expect(decide({ rules }, 'bash', { command: ['ls'] })).toBe('deny by no-git')
    expect(decide({ rules }, 'bash', 'git status')).toBe('deny by no-git')
    expect(decide({ rules }, 'pwsh', { command: 'git push' })).toBe('allow')
  })

  it('says which rule it was, and why', () => {
    const rules: Rules = [
      { name: 'plain', decision: 'ask', tools: 'a' },
      { name: 'said', decision: 'deny', tools: 'b', reason: 'Not today.' }
    ]
    const permissions = new Permissions(config({ rules, default: 'deny' }))
    const reason = (name: string) => permissions.decide({ name, arguments: {}, scopes: [] }).reason
    expect(reason('a')).toBe('the permission rule "plain" says ask')
    expect(reason('b')).toBe('the permission rule "said" says deny: Not today.')
    expect(reason('c')).toBe('no permission rule matches this call, and the default is deny')
  })

  const bash = (words: NonNullable<Rules[number]['command']>['words'], decision: 'allow' | 'deny' = 'allow') =>
    ({ name: 'x', decision, tools: 'bash', command: { words } }) satisfies Rules[number]
  const condition = (
    entry: NonNullable<Rules[number]['arguments']>[number],
    decision: 'allow' | 'deny',
    tools = 'b*'
  ) => ({ name: 'x', decision, tools, arguments: [{ path: 'a', exists: true }, entry] }) satisfies Rules[number]

  it.each<[Rules[number], string]>([
    [{ ...bash(['ls']), tools: '*' }, 'permissions.rules[1].tools: a rule with a command is for the tool "bash" alone'],
    [{ ...bash(['ls']), tools: ['bash', 'pwsh'] }, 'permissions.rules[1].tools: '],
    [bash(['sudo', 'ls']), 'permissions.rules[1].command.words[0]: "sudo" can run more'],
    [bash(['ls', { rest: ['*'] }, '-l'], 'deny'), 'permissions.rules[1].command.words[1]: stands for all'],
    [condition({ path: 'a b', exists: true }, 'deny'), 'permissions.rules[1].arguments[1].path: is no path'],
    [condition({ path: 'a' }, 'deny'), 'permissions.rules[1].arguments[1]: tests nothing'],
    [condition({ path: 'a', matches: '[' }, 'deny'), 'permissions.rules[1].arguments[1].matches: error parsing regexp'],
    [
      condition({ path: 'command', startsWith: 'git ' }, 'deny'),
      'permissions.rules[1].arguments[1]: the text of a command'
    ],
    [
      condition({ path: '["command"]', matches: 'git .*' }, 'allow'),
      'permissions.rules[1].arguments[1]: the text of a command'
    ],
    [
      condition({ path: 'command', equals: 'ls' }, 'allow', '*'),
      'permissions.rules[1].arguments[1]: the text of a command'
    ],
    [
      condition({ path: 'command', startsWith: 'Get-' }, 'allow', 'pwsh'),
      'permissions.rules[1].arguments[1]: the text of a command'
    ],
    [
      { name: 'first', decision: 'deny', tools: 'x' },
      'permissions.rules[1].name: "first" is the name of permissions.rules[0] too'
    ]
  ])('%j stops the boot with its place', (rule, message) => {
    const rules: Rules = [{ name: 'first', decision: 'allow', tools: 'x' }, rule]
    expect(() => new Permissions(config({ rules }))).toThrow(message)
    const scoped = message
      .replace('permissions.rules[1]', 'permissions.scopes["a.b"][1]')
      .replace('permissions.rules[0]', 'permissions.scopes["a.b"][0]')
    expect(() => new Permissions(config({ scopes: { 'a.b': rules } }))).toThrow(scoped)
  })

  it('the text of another tool’s command, and of bash’s in a deny, may be looked at', () => {
    expect(
      () => new Permissions(config({ rules: [condition({ path: 'command', startsWith: 'web-' }, 'allow', 'deploy')] }))
    ).not.toThrow()
    expect(
      () => new Permissions(config({ rules: [condition({ path: 'command', matches: '.*\u202e.*' }, 'deny')] }))
    ).not.toThrow()
  })

  it('the global scope has no list of its own', () => {
    expect(() => new Permissions(config({ scopes: { global: [] } }))).toThrow('permissions.scopes["global"]: ')
  })
})

describe('the version of the rules', () => {
  const rule = (name: string): Rules[number] => ({ name, decision: 'ask', tools: 'x' })
  const version = (more: Partial<PermissionsConfig>, scopes: string[] = ['global', 'a', 'b']) =>
    new Permissions(config(more)).policyVersionOf(scopes)
  const base = { rules: [rule('g')], scopes: { a: [rule('a')], b: [rule('b')] } }

  it('is the same for the same rules, and changes with any that is in force', () => {
    expect(version(base)).toMatch(/^[0-9a-f]{64}$/)
    expect(version(structuredClone(base))).toBe(version(base))
    const others = [
      version({ ...base, default: 'ask' }),
      version({ ...base, rules: [rule('h')] }),
      version({ ...base, rules: [{ ...rule('g'), reason: 'x' }] }),
      version(base, ['global', 'a']),
      version(base, ['global', 'b', 'a'])
    ]
    expect(new Set([version(base), ...others]).size).toBe(others.length + 1)
  })

  it('does not change with those of other scopes, with scopes that have none, nor with where the same rules stand', () => {
    expect(version({ ...base, scopes: { ...base.scopes, c: [rule('c')] } })).toBe(version(base))
    expect(version(base, ['global', 'a', 'x', 'b', 'y', '__proto__'])).toBe(version(base))
    expect(version({ ...base, scopes: { a: [], b: [rule('b'), rule('a')] } })).toBe(version(base))
  })
})

describe('the configuration of the permissions', () => {
  const problems = (permissions: unknown): string => {
    const path = join(temporaryDirectory(), 'c.json')
    writeFileSync(path, JSON.stringify({ permissions }))
    try {
      loadConfig({ file: path })
    } catch (error) {
      return (error as ConfigError).problems.join('\n').replace(/ \(file .*?\)/g, '')
    }
    return ''
  }
  const good = { name: 'a', decision: 'deny', tools: 'x' }

  it('is read, and frozen to the leaves', () => {
    const rules = [{ ...good, arguments: [{ path: 'a', equals: { b: [1] } }] }]
    const { config } = loadConfig({
      env: {
        TOOLWRIGHT_PERMISSIONS_RULES: JSON.stringify(rules),
        TOOLWRIGHT_PERMISSIONS_SCOPES: JSON.stringify({ s: rules })
      }
    })
    expect(config.permissions).toEqual({ default: 'allow', rules, scopes: { s: rules } })
    expect(Object.isFrozen(config.permissions.rules[0]?.arguments?.[0]?.equals)).toBe(true)
    expect(Object.isFrozen(config.permissions.scopes['s']?.[0])).toBe(true)
    expect(new Permissions(config.permissions).decide({ name: 'x', arguments: {}, scopes: [] }).kind).toBe('allow')
  })

  it('the example of docs/permissions.md does what the page says', () => {
    const page = readFileSync(join(import.meta.dirname, '../../../docs/permissions.md'), 'utf8')
    const file = join(temporaryDirectory(), 'c.json')
    writeFileSync(file, /```json\n(.*?)```/s.exec(page)?.[1] ?? '')
    const permissions = new Permissions(loadConfig({ file }).config.permissions)
    const decide = (name: string, args: JsonValue, scopes: string[] = []) =>
      permissions.decide({ name, arguments: args, scopes }).kind
    expect(decide('bash', { command: 'git log --oneline HEAD~3' })).toBe('allow')
    expect(decide('bash', { command: 'git log --output=x' })).toBe('ask')
    expect(decide('bash', { command: 'cd x && git push --force-with-lease' })).toBe('deny')
    expect(decide('write', { file_path: '/srv/../etc/x' })).toBe('deny')
    expect(decide('write', { file_path: '/srv/x' })).toBe('ask')
    expect(decide('write', { file_path: '/srv/x' }, ['global', 'team-a'])).toBe('allow')
    expect(decide('mcp__docs__find', {})).toBe('allow')
  })

  it.each<[unknown, string]>([
    [{ rules: [good, { ...good, toolz: 1 }] }, 'permissions.rules[1].toolz: there is no such key'],
    [{ rules: [{ name: 'a', decision: 'deny' }] }, 'permissions.rules[0].tools: is missing'],
    [
      { rules: [{ ...good, decision: 'maybe' }] },
      'permissions.rules[0].decision: expected allow, deny or ask, not "maybe"'
    ],
    [{ rules: [{ ...good, tools: 5 }] }, 'permissions.rules[0].tools: expected a pattern or a list of patterns, not 5'],
    [
      { rules: [{ ...good, tools: [] }] },
      'permissions.rules[0].tools: expected a pattern or a list of patterns, not []'
    ],
    [
      { rules: [{ ...good, arguments: [{ path: 'a', equal: 1 }] }] },
      'permissions.rules[0].arguments[0].equal: there is no such key'
    ],
    [
      { rules: [{ ...good, arguments: [{ path: 'a', exists: false }] }] },
      'permissions.rules[0].arguments[0].exists: expected true, not false'
    ],
    [
      { rules: [{ ...good, arguments: [] }] },
      'permissions.rules[0].arguments: expected array length to be greater or equal to 1, not []'
    ],
    [
      { rules: [{ ...good, command: { words: ['a', { rest: ['b'], x: 1 }] } }] },
      'permissions.rules[0].command.words[1]: expected a pattern, a list'
    ],
    [{ rules: [{ ...good, command: { word: [] } }] }, 'permissions.rules[0].command.words: is missing'],
    [{ rules: {} }, 'permissions.rules: expected array, not {}'],
    [{ scopes: { 'a b': [good, 7] } }, 'permissions.scopes["a b"][1]: expected object, not 7'],
    [{ scopes: { a: { rules: [] } } }, 'permissions.scopes.a: expected array, not {"rules":[]}'],
    [{ default: 'maybe' }, 'permissions.default is one of allow, deny, ask, not "maybe"'],
    [{ defaults: 'allow' }, 'unknown setting "permissions.defaults"; did you mean permissions.default?']
  ])('%j is refused by its path', (permissions, message) => {
    expect(problems(permissions)).toContain(message)
  })
})
