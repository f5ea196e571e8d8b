import { describe, expect, it } from 'vitest'
import { type JobCompletion, JobRegistry } from '../../../server/backends/jobs/job-registry.ts'
import type { JobOutcome, JobOwner, JobRequest, JobWork } from '../../../server/backends/jobs/jobs.ts'

interface Fixture {
  jobs: JobRegistry
  owner: JobOwner
  warnings: string[]
  /** `started bash-1`, `changed bash-1 completed`, `completion bash-1`, in order. */
  trace: string[]
}

function open(limits: Partial<ConstructorParameters<typeof JobRegistry>[0]> = {}): Fixture {
  const warnings: string[] = []
  const trace: string[] = []
  const jobs = new JobRegistry({
    maxConcurrentPerOwner: 3,
    maxFinishedPerOwner: 100,
    maxFinished: 1000,
    isOwnerLive: () => true,
    warn: (message) => warnings.push(message),
    ...limits
  })
  jobs.attachController(() => true)
  jobs.onChange(({ change, job }) => trace.push(`${change} ${job.id} ${job.status}`))
  jobs.onCompletion(({ job }) => trace.push(`completion ${job.id}`))
  return { jobs, owner: { id: 's1' }, warnings, trace }
}

/** Work that ends when the test says so; `deltas` are what its reads give, one after the other. */
class Work implements JobWork {
  readonly done: Promise<JobOutcome>
  cancels: (string | undefined)[] = []
  deltas: string[] = []
  onCancel = (): void => undefined
  end!: (outcome: JobOutcome) => void
  fail!: (error: unknown) => void

  constructor() {
    this.done = new Promise((resolve, reject) => {
      this.end = resolve
      this.fail = reject
    })
  }

  cancel(reason?: string): void {
    this.cancels.push(reason)
    this.onCancel()
  }

  async readDelta(): Promise<string> {
    return this.deltas.shift() ?? ''
  }
}

function start(
  { jobs, owner }: Fixture,
  more: Partial<JobRequest> = {},
  work = new Work()
): { id: string; work: Work } {
  const { id } = jobs.start({ kind: 'bash', label: 'x', owner, run: () => work, ...more })
  return { id, work }
}

const codeOf = (run: () => unknown): unknown => {
  try {
    run()
    return undefined
  } catch (error) {
    return (error as { code: string }).code
  }
}

const never = new AbortController().signal
const settled = { status: 'completed', detail: 'exit code: 0' } as const

/** Lets everything that is settled be heard of. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('starting (backends.md §4.1)', () => {
  it('checks in order, runs nothing and uses up no id when it refuses', () => {
    const fixture = open({ isOwnerLive: ({ id }) => id !== 'dead', maxConcurrentPerOwner: 1 })
    const { jobs, owner } = fixture
    const undo = jobs.attachController(() => false)
    undo()
    let ran = 0
    const attempt = (more: Partial<JobRequest>, of = jobs): unknown =>
      codeOf(() => of.start({ kind: 'bash', label: 'x', owner, run: () => (ran++, new Work()), ...more }))
    const unserved = new JobRegistry({
      maxConcurrentPerOwner: 1,
      maxFinishedPerOwner: 1,
      maxFinished: 1,
      isOwnerLive: () => false,
      warn: () => undefined
    })
    expect(attempt({ kind: '', outputLimitBytes: 0 }, unserved)).toBe('NO_CONTROLLER')
    expect(attempt({ kind: '', owner: { id: 'dead' } })).toBe('INVALID_JOB')
    expect(attempt({ label: '' })).toBe('INVALID_JOB')
    for (const outputLimitBytes of [0, -1, 1.5, Number.NaN, Infinity])
      expect(attempt({ outputLimitBytes })).toBe('INVALID_JOB')
    expect(attempt({ owner: { id: 'dead' } })).toBe('OWNER_NOT_LIVE')
    expect(ran).toBe(0)
    expect(start(fixture).id).toBe('bash-1')
    expect(attempt({})).toBe('JOB_LIMIT')
    expect(ran).toBe(0)
  })

  it('registers nothing when the starter throws', () => {
    const fixture = open()
    const run = (): never => {
      throw new Error('no such shell')
    }
    expect(() => fixture.jobs.start({ kind: 'bash', label: 'x', owner: fixture.owner, run })).toThrow('no such shell')
    expect(fixture.jobs.all()).toEqual([])
    expect(start(fixture).id).toBe('bash-1')
  })

  it('counts ids by kind over all owners, after those of earlier runs', () => {
    const fixture = open({ maxConcurrentPerOwner: 10 })
    fixture.jobs.continueAfter([['pty-send', 7]])
    const ids = [start(fixture), start(fixture, { kind: 'pty-send' }), start(fixture, { owner: { id: 's2' } })]
    expect(ids.map(({ id }) => id)).toEqual(['bash-1', 'pty-send-8', 'bash-2'])
  })

  it('admits by exact owner, the ones that are being ended included; those of nobody share a bucket', async () => {
    const fixture = open({ maxConcurrentPerOwner: 2 })
    const { jobs, owner } = fixture
    const { id, work } = start(fixture)
    start(fixture)
    jobs.kill(id, owner)
    expect(jobs.find(id)?.job.status).toBe('stopping')
    expect(codeOf(() => start(fixture))).toBe('JOB_LIMIT')
    // Another object with the same id is another owner.
    expect(codeOf(() => start(fixture, { owner: { id: owner.id } }))).toBeUndefined()
    work.end({ status: 'killed' })
    await turn()
    expect(codeOf(() => start(fixture))).toBeUndefined()
    const unowned = (): unknown => codeOf(() => jobs.start({ kind: 'bash', label: 'x', run: () => new Work() }))
    expect([unowned(), unowned(), unowned()]).toEqual([undefined, undefined, 'JOB_LIMIT'])
  })

  it('cuts a label of a whole script, and no character in half', () => {
    const fixture = open()
    const { id } = start(fixture, { label: `${'a'.repeat(4_094)}😀${'b'.repeat(100_000)}` })
    const label = fixture.jobs.find(id)?.job.label ?? ''
    expect(label).toBe(`${'a'.repeat(4_094)}…`)
  })
})

describe('reaching', () => {
  it('tells unknown from foreign, and lets the session of the owner in, whatever its object', async () => {
    const fixture = open()
    const { jobs } = fixture
    const { id } = start(fixture)
    const common = jobs.start({ kind: 'bash', label: 'common', run: () => new Work() }).id
    await expect(jobs.read('bash-9', fixture.owner)).rejects.toMatchObject({ code: 'UNKNOWN_JOB' })
    for (const caller of [{ id: 's2' }, undefined]) {
      await expect(jobs.read(id, caller)).rejects.toMatchObject({ code: 'FOREIGN_JOB' })
      expect(codeOf(() => jobs.kill(id, caller))).toBe('FOREIGN_JOB')
      await expect(jobs.wait(id, caller, { timeoutMs: 1, signal: never })).rejects.toMatchObject({
        code: 'FOREIGN_JOB'
      })
      expect(jobs.list(caller).map((job) => job.id)).toEqual([common])
      expect((await jobs.read(common, caller)).job.status).toBe('running')
    }
    expect(jobs.list({ id: 's1' }).map((job) => job.id)).toEqual([id, common])
    await expect(jobs.read('__proto__', fixture.owner)).rejects.toMatchObject({ code: 'UNKNOWN_JOB' })
  })

  it('tells the byte limit only to who reaches the job', () => {
    const fixture = open()
    const { id } = start(fixture, { outputLimitBytes: 64 })
    expect(fixture.jobs.outputLimitOf(id, fixture.owner)).toBe(64)
    expect(fixture.jobs.outputLimitOf(id, { id: 's2' })).toBeUndefined()
  })
})

describe('reading', () => {
  it('gives each delta once, in order, also to readers at the same time', async () => {
    const fixture = open()
    const { id, work } = start(fixture)
    work.deltas = ['one', 'two']
    const reads = await Promise.all([1, 2, 3].map(() => fixture.jobs.read(id, fixture.owner)))
    expect(reads.map(({ text }) => text)).toEqual(['one', 'two', ''])
  })

  it('an aborted read loses nothing, and many of them pile nothing up', async () => {
    const fixture = open()
    const { id, work } = start(fixture)
    let taken = 0
    let release = (): void => undefined
    work.readDelta = () => new Promise((resolve) => (release = () => resolve(`delta ${++taken}`)))
    const controller = new AbortController()
    const read = fixture.jobs.read(id, fixture.owner, controller.signal)
    await turn()
    controller.abort(new Error('gone'))
    release()
    await expect(read).rejects.toThrow('gone')
    await expect(fixture.jobs.read(id, fixture.owner, controller.signal)).rejects.toThrow('gone')
    expect(taken).toBe(1)
    expect((await fixture.jobs.read(id, fixture.owner)).text).toBe('delta 1')
    const next = fixture.jobs.read(id, fixture.owner)
    await turn()
    release()
    expect((await next).text).toBe('delta 2')
  })

  it('gives the state from before the output: what is said to be over has given all', async () => {
    const fixture = open()
    const { id, work } = start(fixture)
    let release = (): void => undefined
    work.readDelta = () => new Promise((resolve) => (release = () => resolve('early')))
    const read = fixture.jobs.read(id, fixture.owner)
    await turn()
    work.end(settled)
    await turn()
    release()
    expect(await read).toMatchObject({ text: 'early', job: { status: 'running' } })
    expect(fixture.trace).toContain(`completion ${id}`)
    work.readDelta = () => Promise.resolve('rest')
    expect(await fixture.jobs.read(id, fixture.owner)).toMatchObject({ text: 'rest', job: { status: 'completed' } })
  })

  it('a job of final output is empty while it lives, then says the same every time', async () => {
    const fixture = open()
    const { jobs, owner } = fixture
    let end!: (outcome: JobOutcome) => void
    const done = new Promise<JobOutcome>((resolve) => (end = resolve))
    const { id } = jobs.start({ kind: 'subagent', label: 'x', owner, run: () => ({ done, cancel: () => undefined }) })
    expect((await jobs.read(id, owner)).text).toBe('')
    end({ status: 'completed', output: 'die Lösung' })
    await turn()
    expect([(await jobs.read(id, owner)).text, (await jobs.read(id, owner)).text]).toEqual(['die Lösung', 'die Lösung'])
    const window = (after: number, maxBytes: number) => jobs.readWindow(id, { stream: 'stdout', after, maxBytes })
    // The ö is bytes 5 and 6.
    expect(await window(0, 6)).toEqual({ text: 'die L', from: 0, next: 5, lossy: false })
    expect(await window(5, 1)).toEqual({ text: 'ö', from: 5, next: 7, lossy: false })
    expect(await window(6, 2)).toEqual({ text: 'su', from: 7, next: 9, lossy: false })
    expect(await window(999, 2)).toEqual({ text: '', from: 11, next: 11, lossy: false })
  })
})

describe('killing', () => {
  it('asks the producer first, and each time; after the end it says so and takes no output', async () => {
    const fixture = open()
    const { jobs, owner, trace } = fixture
    const { id, work } = start(fixture)
    expect(jobs.kill(id, owner, 'enough')).toMatchObject({
      outcome: 'cancellation-requested',
      job: { status: 'stopping' }
    })
    expect(jobs.kill(id, owner)).toMatchObject({ outcome: 'cancellation-requested' })
    expect(work.cancels).toEqual(['enough', undefined])
    work.deltas = ['last words']
    work.end({ status: 'killed', detail: 'signal: SIGTERM' })
    await turn()
    expect(jobs.kill(id, owner)).toMatchObject({ outcome: 'already-finished', job: { status: 'killed' } })
    expect(work.cancels).toHaveLength(2)
    expect((await jobs.read(id, owner)).text).toBe('last words')
    expect(trace).toEqual([`started ${id} running`, `changed ${id} stopping`, `changed ${id} killed`])
  })

  it('a producer that cannot be asked leaves the job as it was', () => {
    const fixture = open()
    const { id, work } = start(fixture)
    work.onCancel = () => {
      throw new Error('no tty')
    }
    expect(() => fixture.jobs.kill(id, fixture.owner)).toThrow('no tty')
    expect(fixture.jobs.find(id)?.job.status).toBe('running')
  })

  it('only the first outcome counts, and a rejection is a failure in one line', async () => {
    const fixture = open()
    const { id, work } = start(fixture)
    work.fail(new Error('lost\n  the thread'))
    work.end(settled)
    await turn()
    expect(fixture.jobs.find(id)?.job).toMatchObject({ status: 'failed', detail: 'lost the thread' })
  })
})

describe('waiting', () => {
  it('resolves with the end, or with the live job when the time is over', async () => {
    const fixture = open()
    const { jobs, owner } = fixture
    const { id, work } = start(fixture)
    expect((await jobs.wait(id, owner, { timeoutMs: 1, signal: never })).status).toBe('running')
    const wait = jobs.wait(id, owner, { timeoutMs: 1e12, signal: never })
    work.end(settled)
    expect(await wait).toMatchObject(settled)
    expect((await jobs.wait(id, owner, { timeoutMs: 1, signal: never })).status).toBe('completed')
  })

  it.each([0, -1, Number.NaN, Infinity])('refuses a timeout of %s', async (timeoutMs) => {
    const fixture = open()
    const { id } = start(fixture)
    const wait = fixture.jobs.wait(id, fixture.owner, { timeoutMs, signal: never })
    await expect(wait).rejects.toMatchObject({ code: 'INVALID_WAIT' })
  })

  it('an abort ends the wait alone', async () => {
    const fixture = open()
    const { id } = start(fixture)
    const controller = new AbortController()
    const wait = fixture.jobs.wait(id, fixture.owner, { timeoutMs: 10_000, signal: controller.signal })
    controller.abort(new Error('gone'))
    await expect(wait).rejects.toThrow('gone')
    const late = fixture.jobs.wait(id, fixture.owner, { timeoutMs: 10_000, signal: controller.signal })
    await expect(late).rejects.toThrow('gone')
    expect(fixture.jobs.find(id)?.job.status).toBe('running')
  })

  it('when the end and an abort come together the end wins, and is told of, as nobody may have heard', async () => {
    const fixture = open()
    const { id, work } = start(fixture)
    const controller = new AbortController()
    const wait = fixture.jobs.wait(id, fixture.owner, { timeoutMs: 10_000, signal: controller.signal })
    work.end(settled)
    controller.abort(new Error('gone'))
    expect((await wait).status).toBe('completed')
    expect(fixture.trace).toContain(`completion ${id}`)
  })
})

describe('telling of the end (backends.md §4.1, §4.2)', () => {
  it('releases who waits, then observers, then completion listeners, each contained', async () => {
    const fixture = open()
    const { jobs, trace, owner } = fixture
    const order: string[] = []
    jobs.onChange(() => {
      throw new Error('an observer failed')
    })
    jobs.onChange(({ change }) => order.push(change))
    jobs.onCompletion(() => {
      throw new Error('a listener failed')
    })
    const { id, work } = start(fixture)
    const controller = new AbortController()
    // Aborted, so that the completion is told all the same.
    const wait = jobs.wait(id, owner, { timeoutMs: 1000, signal: controller.signal }).then(() => order.push('waiter'))
    const seen: JobCompletion[] = []
    jobs.onCompletion((completion) => {
      order.push('completion')
      seen.push(completion)
    })
    work.end(settled)
    controller.abort()
    await wait
    expect(order).toEqual(['started', 'changed', 'completion', 'waiter'])
    expect(trace).toEqual([`started ${id} running`, `changed ${id} completed`, `completion ${id}`])
    expect(seen[0]).toMatchObject({ job: { id }, owner })
    expect(fixture.warnings).toHaveLength(3)
  })

  it('C27 is silent of a job that was killed, or whose end somebody waits for', async () => {
    const fixture = open()
    const { jobs, owner, trace } = fixture
    const killed = start(fixture)
    jobs.kill(killed.id, owner)
    killed.work.end({ status: 'killed' })
    const waited = start(fixture)
    const wait = jobs.wait(waited.id, owner, { timeoutMs: 10_000, signal: never })
    waited.work.end(settled)
    await wait
    const unheard = start(fixture)
    unheard.work.end(settled)
    await turn()
    expect(trace.filter((line) => line.startsWith('completion'))).toEqual([`completion ${unheard.id}`])
  })
})

describe('disposal', () => {
  it('ends the jobs of one object, waits for that, and forgets them; its namesake goes on', async () => {
    const fixture = open()
    const { jobs, owner, trace } = fixture
    const { id, work } = start(fixture)
    const finished = start(fixture)
    finished.work.end(settled)
    const namesake = start(fixture, { owner: { id: owner.id } })
    await turn()
    trace.length = 0
    let isOver = false
    const disposal = jobs.disposeOwners((other) => other === owner).then(() => (isOver = true))
    await turn()
    expect([work.cancels.length, isOver]).toEqual([1, false])
    work.end({ status: 'killed' })
    await disposal
    expect(jobs.list(owner).map((job) => job.id)).toEqual([namesake.id])
    expect(trace).toEqual([
      `changed ${id} stopping`,
      `changed ${id} killed`,
      `removed ${id} killed`,
      `removed ${finished.id} completed`
    ])
  })

  it('ends what finished work has left running', async () => {
    const fixture = open()
    const work = new Work()
    let ended = 0
    Object.assign(work, { endLeftovers: async () => void ended++ })
    start(fixture, {}, work)
    work.end(settled)
    await turn()
    expect(ended).toBe(0)
    await fixture.jobs.disposeOwners(() => true)
    expect(ended).toBe(1)
  })

  it('is not held up by work that cannot be told to end', async () => {
    const fixture = open()
    const { work } = start(fixture)
    const other = start(fixture)
    work.onCancel = () => {
      throw new Error('no tty')
    }
    other.work.onCancel = () => other.work.end({ status: 'killed' })
    await fixture.jobs.dispose()
    expect(fixture.warnings).toEqual(['a job could not be ended, its work may go on'])
    expect(fixture.jobs.all()).toEqual([])
    expect(fixture.trace.filter((line) => line.startsWith('completion'))).toEqual([])
    expect(codeOf(() => start(fixture))).toBe('SERVICE_DISPOSING')
    await fixture.jobs.dispose()
  })

  it('quiet is when no job of the owners lives', async () => {
    const fixture = open()
    const first = start(fixture)
    let isQuiet = false
    const quiet = fixture.jobs.whenQuiet(() => true).then(() => (isQuiet = true))
    const second = start(fixture)
    first.work.end(settled)
    await turn()
    expect(isQuiet).toBe(false)
    second.work.end(settled)
    await quiet
    await fixture.jobs.whenQuiet(() => true)
  })
})

describe('what stays listed', () => {
  it('the oldest finished jobs make room, live ones never', async () => {
    const fixture = open({ maxConcurrentPerOwner: 9, maxFinishedPerOwner: 2, maxFinished: 3 })
    const { jobs, owner } = fixture
    const live = start(fixture)
    for (let i = 0; i < 3; i++) start(fixture).work.end(settled)
    const other = { id: 's2' }
    for (let i = 0; i < 2; i++) start(fixture, { owner: other }).work.end(settled)
    await turn()
    expect(jobs.list(owner).map(({ id }) => id)).toEqual([live.id, 'bash-4'])
    expect(jobs.list(other).map(({ id }) => id)).toEqual(['bash-5', 'bash-6'])
    expect(start(fixture).id).toBe('bash-7')
  })

  it('jobs of an earlier run come first, and are over', async () => {
    const fixture = open()
    const { jobs, owner } = fixture
    const { id } = start(fixture, { kind: 'new' })
    const past = { kind: 'bash', label: 'x', startedAt: 1, output: 'gone' }
    jobs.restore([
      { ...past, id: 'bash-3', status: 'lost', owner: { id: owner.id } },
      { ...past, id: 'bash-4', status: 'completed', finishedAt: 2, owner: undefined }
    ])
    expect(jobs.list(owner).map((job) => job.id)).toEqual(['bash-3', 'bash-4', id])
    expect(await jobs.read('bash-3', owner)).toEqual({
      text: 'gone',
      job: { id: 'bash-3', kind: 'bash', label: 'x', status: 'lost', startedAt: 1 }
    })
    expect(jobs.kill('bash-3', owner).outcome).toBe('already-finished')
    expect((await jobs.wait('bash-3', owner, { timeoutMs: 1, signal: never })).status).toBe('lost')
    expect(fixture.trace).toEqual([`started ${id} running`])
  })
})
