import { describe, expect, it } from 'vitest'
import { RequestError } from '../../server/errors.ts'
import { StoreUnavailableError } from '../../server/event-log/event-log.ts'
import type { Author } from '../../server/registrations/check-change.ts'
import { InTurn } from '../../server/registrations/in-turn.ts'
import type { WireRegistration } from '../../server/registrations/stored-tool.ts'
import { WireTools } from '../../server/registrations/wire-tools.ts'
import type { Scope } from '../../server/scopes/scope.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import { Registry } from '../../server/tools/registry.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { FlakyLog } from '../helpers/flaky-log.ts'
import { deferred } from '../helpers/pipeline-fixture.ts'

interface Fixture {
  log: FlakyLog
  tree: ScopeTree
  registry: Registry
  wireTools: WireTools
  admin: Author
  warnings: string[]
  used: string[]
  /** What the next tools to be compiled wait for. */
  compiled: Promise<void>[]
}

const given = (name: string, description = `does ${name}`): WireRegistration => ({
  tool: { name, description, parameters: { type: 'object' } },
  executor: { kind: 'http', url: 'http://tools.example' }
})

function fixture(log = new FlakyLog()): Fixture {
  const tree = new ScopeTree()
  const registry = new Registry({ tree })
  const warnings: string[] = []
  const used: string[] = []
  const compiled: Promise<void>[] = []
  const turns = new InTurn()
  const wireTools = new WireTools({
    log,
    tree,
    registry,
    limits: { max: 100, maxPerScope: 10, maxDescriptionBytes: 1_000 },
    now: () => 1,
    inTurn: (change) => turns.run(change),
    make: async ({ tool }) => {
      await compiled.shift()
      if (tool.description === 'bad') throw new RequestError('INVALID_DEFINITION')
      return bareTool(tool.name, { description: tool.description })
    },
    used: ({ id }) => used.push(id),
    warn: (message) => warnings.push(message)
  })
  return { log, tree, registry, wireTools, admin: { reach: tree.global, mayConfigure: true }, warnings, used, compiled }
}

const names = ({ registry }: Fixture, scope?: Scope): string[] => registry.view(scope).map(({ name }) => name)
const stored = async ({ log }: Fixture): Promise<string[]> =>
  (await log.rows('registrations', { kind: 'tool' })).map(({ scope, name }) => `${scope}/${name}`)
const code = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'done',
    (error: { code?: string }) => error.code ?? error
  )

describe('a change that cannot be stored', () => {
  it('registers nothing and takes nothing away', async () => {
    const all = fixture()
    const { log, wireTools, admin, registry } = all
    await wireTools.register(admin, undefined, [given('one')])
    let changes = 0
    registry.onChange(() => (changes += 1))
    log.refuses = () => true
    const refused = await Promise.allSettled([
      wireTools.register(admin, undefined, [given('two')]),
      wireTools.register(admin, undefined, [given('one', 'new')], () => true),
      wireTools.remove(admin, undefined, 'one')
    ])
    for (const outcome of refused) expect(outcome).toMatchObject({ reason: expect.any(StoreUnavailableError) })
    expect([names(all), changes, wireTools.of(admin.reach).length]).toEqual([['one'], 0, 1])
    expect(registry.lookup('one')?.description).toBe('does one')
    log.refuses = () => false
    expect(await wireTools.remove(admin, undefined, 'one')).toBe(true)
    expect([names(all), await stored(all)]).toEqual([[], []])
  })
})

describe('several tools at once', () => {
  it('come all or not at all', async () => {
    const all = fixture()
    const { wireTools, admin, registry } = all
    registry.register(admin.reach, bareTool('plain'))
    const lists = [
      [given('a'), given('plain')],
      [given('a'), given('b', 'bad')],
      [given('a'), given('a')],
      Array.from({ length: 11 }, (_, n) => given(`t${n}`))
    ]
    const outcomes: unknown[] = []
    for (const list of lists) outcomes.push(await code(wireTools.register(admin, undefined, list)))
    expect(outcomes).toEqual(['DUPLICATE_TOOL', 'INVALID_DEFINITION', 'DUPLICATE_TOOL', 'RATE_LIMITED'])
    expect([names(all), await stored(all)]).toEqual([['plain'], []])
    await wireTools.register(admin, undefined, [given('b'), given('a')])
    expect([names(all), await stored(all)]).toEqual([
      ['plain', 'b', 'a'],
      ['global/b', 'global/a']
    ])
  })

  it('take the place of earlier ones where that is consented to, and go to the end, now and after a restart', async () => {
    const all = fixture()
    const { wireTools, admin, registry, log } = all
    await wireTools.register(admin, undefined, [given('a'), given('b'), given('c')])
    const replacing = [given('a', 'new'), given('d')]
    expect(await code(wireTools.register(admin, undefined, replacing, ({ tool }) => tool.name !== 'a'))).toBe(
      'DUPLICATE_TOOL'
    )
    await wireTools.register(admin, undefined, replacing, () => true)
    expect(names(all)).toEqual(['b', 'c', 'a', 'd'])
    expect(registry.lookup('a')?.description).toBe('new')
    const next = fixture(log)
    await next.wireTools.restore()
    expect([names(next), next.warnings]).toEqual([['b', 'c', 'a', 'd'], []])
    expect(next.wireTools.of(next.admin.reach)).toEqual(wireTools.of(admin.reach))
  })
})

describe('a listener to the change that throws', () => {
  it('refuses new tools: what was there before is there again, in force and stored', async () => {
    const all = fixture()
    const { wireTools, admin, registry, log } = all
    await wireTools.register(admin, undefined, [given('a', 'old')])
    const stop = registry.onChange(() => {
      if (registry.lookup('b') !== undefined) throw new Error('not b')
    })
    const refused = wireTools.register(admin, undefined, [given('a', 'new'), given('b')], () => true)
    await expect(refused).rejects.toThrow('not b')
    stop()
    expect([names(all), registry.lookup('a')?.description, await stored(all)]).toEqual([['a'], 'old', ['global/a']])
    const next = fixture(log)
    await next.wireTools.restore()
    expect(next.registry.lookup('a')?.description).toBe('old')
  })

  it('does not keep a tool from going', async () => {
    const all = fixture()
    const { wireTools, admin, registry, warnings } = all
    await wireTools.register(admin, undefined, [given('a')])
    registry.onChange(() => {
      throw new Error('no')
    })
    expect(await wireTools.remove(admin, undefined, 'a')).toBe(true)
    expect([names(all), await stored(all), warnings.length]).toEqual([[], [], 1])
  })
})

describe('a scope that goes meanwhile', () => {
  it('has no tool afterwards, in force or stored, whenever it goes', async () => {
    const all = fixture()
    const { wireTools, admin, tree, log, compiled } = all
    const remove = (id: string): void => {
      const scope = tree.get(id) as Scope
      scope.clear()
      tree.remove(scope)
    }
    tree.create('a')
    const compiling = deferred()
    compiled.push(compiling.promise)
    const early = code(wireTools.register(admin, 'a', [given('x')]))
    remove('a')
    tree.create('a')
    compiling.resolve()
    expect(await early).toBe('UNKNOWN_SCOPE')

    const append = log.append.bind(log)
    log.append = async (request) => {
      if (tree.get('a') !== undefined) remove('a')
      return append(request)
    }
    expect(await code(wireTools.register(admin, 'a', [given('x')]))).toBe('UNKNOWN_SCOPE')
    expect([names(all), await stored(all)]).toEqual([[], []])
  })
})

describe('who may', () => {
  it('reaches its own scope and what is below; other tools are not its to take away', async () => {
    const all = fixture()
    const { wireTools, admin, tree, registry, used } = all
    const reach = tree.create('a')
    tree.create('a.1', reach)
    tree.create('b')
    const author = { reach, mayConfigure: false }
    registry.register(reach, bareTool('plain'))
    await wireTools.register(author, undefined, [given('mine')])
    await wireTools.register(author, 'a.1', [given('mine')])
    expect(await code(wireTools.register(author, 'b', [given('x')]))).toBe('UNKNOWN_SCOPE')
    expect(await code(wireTools.register(author, 'global', [given('x')]))).toBe('UNKNOWN_SCOPE')
    expect(await code(wireTools.remove(author, 'b', 'x'))).toBe('UNKNOWN_SCOPE')
    expect(await code(wireTools.remove(author, 'a', 'plain'))).toBe('FORBIDDEN')
    expect(await code(wireTools.remove(author, 'a', 'mine', () => false))).toBe('FORBIDDEN')
    expect(await wireTools.remove(author, 'a', 'nothing')).toBe(false)
    expect(await wireTools.remove(admin, 'a', 'mine')).toBe(true)
    expect(used).toEqual(['a', 'a.1', 'a'])
    expect(await stored(all)).toEqual(['a.1/mine'])
  })

  it('a tool that compiles slowly once comes back after a restart all the same', async () => {
    const { wireTools, admin, log } = fixture()
    await wireTools.register(admin, undefined, [given('a')])
    const next = fixture(log)
    next.compiled.push(Promise.reject(new Error('too long')))
    await next.wireTools.restore()
    expect([names(next), next.warnings]).toEqual([['a'], []])
  })

  it('one that did not come back can be taken away by who may, also where another has its name now', async () => {
    const { wireTools, admin, log } = fixture()
    await wireTools.register(admin, undefined, [given('a'), given('b')])
    const next = fixture(log)
    next.registry.register(next.admin.reach, bareTool('a'))
    await next.wireTools.restore()
    expect([names(next), next.warnings.length]).toEqual([['a', 'b'], 1])
    expect(await code(next.wireTools.remove(next.admin, undefined, 'a', () => false))).toBe('FORBIDDEN')
    expect(await next.wireTools.remove(next.admin, undefined, 'a')).toBe(true)
    expect(await code(next.wireTools.remove(next.admin, undefined, 'a'))).toBe('FORBIDDEN')
    expect([names(next), await stored(next)]).toEqual([['a', 'b'], ['global/b']])
  })
})
