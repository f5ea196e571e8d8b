import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toolScopeOf } from '../../server/authoring/tool-scope.ts'
import { type EventLog, StoreUnavailableError } from '../../server/event-log/event-log.ts'
import { openMemoryLog } from '../../server/event-log/memory-log.ts'
import { createPipeline } from '../../server/pipeline/pipeline.ts'
import type { Author } from '../../server/registrations/check-change.ts'
import type { Clock } from '../../server/registrations/idle-scopes.ts'
import { Registrations } from '../../server/registrations/registrations.ts'
import type { Scope } from '../../server/scopes/scope.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import { Registry } from '../../server/tools/registry.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { until } from '../helpers/until.ts'

/** Time that passes when the test says so. */
class TestClock implements Clock {
  now = 1_000_000
  readonly #timers = new Set<{ at: number; run: () => void }>()

  monotonic = (): number => this.now
  wall = (): number => this.now

  after = (delayMs: number, run: () => void): (() => void) => {
    const timer = { at: this.now + delayMs, run }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  pass(ms: number): void {
    const end = this.now + ms
    for (;;) {
      const [next] = [...this.#timers].filter(({ at }) => at <= end).toSorted((a, b) => a.at - b.at)
      if (next === undefined) break
      this.#timers.delete(next)
      this.now = Math.max(this.now, next.at)
      next.run()
    }
    this.now = end
  }

  get size(): number {
    return this.#timers.size
  }
}

interface Fixture {
  log: EventLog & { isFailing: boolean }
  clock: TestClock
  tree: ScopeTree
  registry: Registry
  registrations: Registrations
  admin: Author
  warnings: string[]
  /** Ids of scopes that others were told to forget, in order. */
  erased: string[]
  /** What holds the calls of scopes live. */
  busy: Map<string, Promise<void>>
}

/** A log whose appends fail on demand. */
function failingLog(): Fixture['log'] {
  const log = openMemoryLog()
  return Object.assign(Object.create(log) as EventLog, {
    isFailing: false,
    append(this: Fixture['log'], request: Parameters<EventLog['append']>[0]) {
      return this.isFailing ? Promise.reject(new StoreUnavailableError('full')) : log.append(request)
    },
    rows: log.rows.bind(log)
  })
}

function engine(log = failingLog(), clock = new TestClock()): Fixture {
  const tree = new ScopeTree()
  const registry = new Registry({ tree })
  const pipeline = createPipeline({ tree, registry, warn: () => undefined })
  for (const name of ['alpha', 'beta']) registry.register(tree.global, bareTool(name))
  const busy = new Map<string, Promise<void>>()
  const warnings: string[] = []
  const erased: string[] = []
  const registrations = new Registrations({
    log,
    tree,
    registry,
    root: toolScopeOf({ tree, registry, pipeline }, tree.global),
    limits: { max: 100, maxDepth: 10, maxRestrictions: 10 },
    clock,
    quiet: async (scope: Scope) => {
      for (const each of tree.subtree(scope)) await busy.get(each.id)
    },
    isBound: () => false,
    named: new Set(),
    onErased: (ids) => void erased.push(...ids),
    warn: (message) => warnings.push(message)
  })
  const admin = { reach: tree.global, mayConfigure: true }
  return { log, clock, tree, registry, registrations, admin, warnings, erased, busy }
}

const scopeIds = ({ tree }: Fixture): string[] => tree.all().map(({ id }) => id)
const stored = async ({ log }: Fixture): Promise<unknown[]> =>
  (await log.rows('registrations', { kind: 'scope' })).map(({ scope }) => scope)

describe('a change that cannot be stored', () => {
  it('leaves the tree, masks, modes and idle times as they were, and the next one goes through', async () => {
    const fixture = engine()
    const { log, registrations, registry, admin, tree, clock } = fixture
    await registrations.put(admin, 'a', { restrict: [{ deny: ['alpha'] }], presentAs: 'both', ttlMs: 10_000 })
    const scope = tree.get('a') as Scope
    const before = JSON.stringify(registrations.of(scope))
    const [mask] = registrations.of(scope)?.restrict ?? []
    let changes = 0
    registry.onChange(() => (changes += 1))
    log.isFailing = true
    const refused = await Promise.allSettled([
      registrations.put(admin, 'a', {}),
      registrations.put(admin, 'new', {}),
      registrations.addMask(admin, 'a', { deny: ['beta'] }),
      registrations.removeMask(admin, 'a', mask?.id ?? ''),
      registrations.present(admin, 'a', 'code'),
      registrations.unpresent(admin, 'a'),
      registrations.dispose(admin, 'a')
    ])
    for (const outcome of refused) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: expect.any(StoreUnavailableError) })
    }
    expect(changes).toBe(0)
    expect(scopeIds(fixture)).toEqual(['global', 'a'])
    expect(JSON.stringify(registrations.of(scope))).toBe(before)
    expect(registry.schemas(scope).map(({ name }) => name)).toEqual(['beta'])
    expect(clock.size).toBe(1)
    log.isFailing = false
    await registrations.put(admin, 'a', {})
    expect(registry.schemas(scope).map(({ name }) => name)).toEqual(['alpha', 'beta'])
    expect(clock.size).toBe(0)
  })
})

it('tells of the ids whose stored things are erased: of those that go with all below them, and of new ones', async () => {
  const { registrations, admin, erased } = engine()
  await registrations.put(admin, 'a', {})
  await registrations.put(admin, 'a/b', { parent: 'a' })
  await registrations.put(admin, 'a', {})
  expect(erased.splice(0)).toEqual(['a', 'a/b'])
  await registrations.dispose(admin, 'a')
  expect(erased.splice(0)).toEqual(['a/b', 'a'])
  await registrations.put(admin, 'a', {})
  expect(erased).toEqual(['a'])
})

describe('idle scopes', () => {
  it('end after their ttlMs without a use; a use below is a use above', async () => {
    const fixture = engine()
    const { clock, registrations, admin, tree } = fixture
    await registrations.put(admin, 'a', { ttlMs: 10_000 })
    await registrations.put(admin, 'b', { parent: 'a' })
    clock.pass(9_000)
    registrations.used(tree.get('b') as Scope)
    clock.pass(9_000)
    expect(scopeIds(fixture)).toEqual(['global', 'a', 'b'])
    clock.pass(1_000)
    await until(() => scopeIds(fixture).length === 1)
    await until(async () => (await stored(fixture)).length === 0)
    expect(clock.size).toBe(0)
  })

  it('one with a live call stays, and goes when the call was no use', async () => {
    const fixture = engine()
    const { clock, registrations, admin, busy } = fixture
    const calls = deferred()
    await registrations.put(admin, 'a', { ttlMs: 10_000 })
    busy.set('a', calls.promise)
    clock.pass(50_000)
    await registrations.put(admin, 'other', {})
    expect(scopeIds(fixture)).toEqual(['global', 'a', 'other'])
    calls.resolve()
    await until(() => !scopeIds(fixture).includes('a'))
  })

  it('one that was used while its calls ended is watched anew', async () => {
    const fixture = engine()
    const { clock, registrations, admin, busy, tree } = fixture
    const calls = deferred()
    await registrations.put(admin, 'a', { ttlMs: 10_000 })
    busy.set('a', calls.promise)
    clock.pass(15_000)
    registrations.used(tree.get('a') as Scope)
    calls.resolve()
    await until(() => clock.size === 1)
    expect(scopeIds(fixture)).toEqual(['global', 'a'])
    busy.delete('a')
    clock.pass(10_000)
    await until(() => !scopeIds(fixture).includes('a'))
  })

  it('the rule survives a restart: uses are stored now and then, and downtime alone ends nothing before it can be used', async () => {
    const first = engine()
    await first.registrations.put(first.admin, 'a', { ttlMs: 40_000 })
    const storedUse = async (): Promise<number> => {
      const [row] = await first.log.rows('registrations', { kind: 'scope', scope: 'a' })
      return JSON.parse(String(row?.['data'])).usedAt as number
    }
    const begun = await storedUse()
    first.clock.pass(5_000)
    first.registrations.used(first.tree.get('a') as Scope)
    first.clock.pass(10_000)
    first.registrations.used(first.tree.get('a') as Scope)
    await until(async () => (await storedUse()) === begun + 15_000)
    await first.registrations.close()
    expect(first.clock.size).toBe(0)

    first.clock.pass(20_000)
    const second = engine(first.log, first.clock)
    await second.registrations.restore()
    // 20 s were left, and 10 s more for the uses that may not be stored.
    second.clock.pass(29_000)
    expect(scopeIds(second)).toEqual(['global', 'a'])
    second.clock.pass(1_000)
    await until(() => scopeIds(second).length === 1)
    await second.registrations.put(second.admin, 'b', { ttlMs: 40_000 })
    await second.registrations.close()

    second.clock.pass(10_000_000)
    const third = engine(first.log, first.clock)
    await third.registrations.restore()
    expect(scopeIds(third)).toEqual(['global', 'b'])
    third.clock.pass(10_000)
    await until(() => scopeIds(third).length === 1)
  })

  it('what cannot be erased now is gone all the same, and ends again after the next start', async () => {
    const fixture = engine()
    await fixture.registrations.put(fixture.admin, 'a', { ttlMs: 10_000 })
    fixture.log.isFailing = true
    fixture.clock.pass(10_000)
    await until(() => fixture.warnings.length > 0)
    expect(scopeIds(fixture)).toEqual(['global'])
    fixture.log.isFailing = false
    const next = engine(fixture.log, fixture.clock)
    await next.registrations.restore()
    expect(scopeIds(next)).toEqual(['global', 'a'])
  })

  it('a ttlMs longer than a timer can wait is waited for', async () => {
    const fixture = engine()
    await fixture.registrations.put(fixture.admin, 'a', { ttlMs: 31_536_000_000 })
    fixture.clock.pass(31_535_999_000)
    expect(scopeIds(fixture)).toEqual(['global', 'a'])
    fixture.clock.pass(1_000)
    await until(() => scopeIds(fixture).length === 1)
  })
})

describe('what is stored may be anything', () => {
  it('rows that are not legible, or in a circle, are told of and left where they are', async () => {
    const fixture = engine()
    const put = (scope: string, data: unknown): Promise<unknown> =>
      fixture.log.append({
        writes: [
          {
            table: 'registrations',
            op: 'put',
            row: {
              kind: 'scope',
              scope,
              name: '',
              created_at: 0,
              data: typeof data === 'string' ? data : JSON.stringify(data)
            }
          }
        ]
      })
    await put('torn', '{"above":["glo')
    await put('odd', { restrict: 1 })
    await put('x', { above: ['global', 'y'], restrict: [], usedAt: 0 })
    await put('y', { above: ['global', 'x'], restrict: [], usedAt: 0 })
    await put('global', { restrict: [], usedAt: 0 })
    await put('below', { above: ['global', 'fine'], restrict: [], usedAt: 0 })
    await put('fine', { above: ['global'], restrict: [{ id: 'm', deny: ['alpha'] }], usedAt: 0 })
    await fixture.registrations.restore()
    // Parents come first, in whatever order the rows were written.
    expect(scopeIds(fixture)).toEqual(['global', 'fine', 'below'])
    expect(fixture.warnings).toHaveLength(4)
    expect(await stored(fixture)).toHaveLength(7)
  })

  it('a mode that a plugin declares by now stays the plugin’s', async () => {
    const first = engine()
    await first.registrations.put(first.admin, 'a', { presentAs: 'code', restrict: [{ deny: ['alpha'] }] })
    const second = engine(first.log, first.clock)
    second.registry.presentAs(second.tree.create('a'), 'native')
    await second.registrations.restore()
    expect(second.registry.effectiveMode(second.tree.get('a'))).toBe('native')
    expect(second.registry.schemas(second.tree.get('a')).map(({ name }) => name)).toEqual(['beta'])
    expect(second.warnings).toHaveLength(1)
  })
})

describe('whatever was registered', () => {
  const id = fc.constantFrom('a', 'b', 'c', 'd')
  const name = fc.constantFrom('alpha', 'beta', 'nope', 'run_code')
  const mask = fc.record({ allow: fc.array(name), deny: fc.array(name) }, { requiredKeys: [] })
  const mode = fc.constantFrom('native', 'code', 'both')
  const wanted = fc.record(
    {
      parent: fc.oneof(id, fc.constant('global')),
      restrict: fc.array(mask, { maxLength: 3 }),
      presentAs: mode,
      ttlMs: fc.integer({ min: 1, max: 1_000_000 })
    },
    { requiredKeys: [] }
  )
  type Step = (fixture: Fixture) => Promise<unknown>
  const step: fc.Arbitrary<Step> = fc.oneof(
    fc.tuple(id, wanted).map(
      ([a, b]): Step =>
        (fixture) =>
          fixture.registrations.put(fixture.admin, a, b as object)
    ),
    fc.tuple(id, mask).map(
      ([a, b]): Step =>
        (fixture) =>
          fixture.registrations.addMask(fixture.admin, a, b)
    ),
    id.map(
      (a): Step =>
        (fixture) =>
          fixture.registrations.dispose(fixture.admin, a)
    ),
    id.map(
      (a): Step =>
        (fixture) =>
          fixture.registrations.unpresent(fixture.admin, a)
    ),
    fc.boolean().map(
      (isFailing): Step =>
        async ({ log }) =>
          (log.isFailing = isFailing)
    )
  )
  const shown = ({ tree, registry, registrations }: Fixture): unknown =>
    tree
      .all()
      .map((scope) => ({
        id: scope.id,
        above: scope.chain.map((layer) => layer.id),
        mode: registry.effectiveMode(scope),
        tools: registry.schemas(scope).map((schema) => schema.name),
        restrict: registrations.of(scope)?.restrict ?? [],
        ttlMs: registrations.of(scope)?.ttlMs
      }))
      .toSorted((a, b) => (a.id < b.id ? -1 : 1))

  it('is the same after a restart', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const fixture = engine()
        await Promise.allSettled(steps.map((run) => run(fixture)))
        await fixture.registrations.close()
        fixture.log.isFailing = false
        const next = engine(fixture.log, fixture.clock)
        await next.registrations.restore()
        expect(shown(next)).toEqual(shown(fixture))
        expect(next.warnings).toEqual([])
        await next.registrations.close()
      }),
      { numRuns: 300 }
    )
  })
})

describe('in-process changes at the same time', () => {
  it('a parent that a plugin disposes while its child is being stored leaves no child behind', async () => {
    const fixture = engine()
    const { registrations, admin, tree, log } = fixture
    await registrations.put(admin, 'p', {})
    const append = log.append.bind(log)
    log.append = async (request) => {
      const done = await append(request)
      const parent = tree.get('p')
      if (parent !== undefined) tree.remove(parent)
      return done
    }
    await expect(registrations.put(admin, 'c', { parent: 'p' })).rejects.toMatchObject({ code: 'UNKNOWN_SCOPE' })
    expect(scopeIds(fixture)).toEqual(['global'])
    expect(await stored(fixture)).toEqual(['p'])
  })
})

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => undefined
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}
