import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { TestApp } from '../helpers/app.ts'
import { fixtureTools, Gates } from '../helpers/code-mode-fixture.ts'
import { descendants } from '../helpers/code-runtime.ts'
import { serveApp } from '../helpers/served-app.ts'
import { until } from '../helpers/until.ts'

const timeout = { timeout: 120_000 }
const megabyte = 1024 * 1024

async function startCodeApp(settings: Record<string, string> = {}): Promise<TestApp & { gates: Gates }> {
  const app = new TestApp(
    await serveApp({
      'codeRuntime.backend': 'process',
      'presentation.mode': 'both',
      'drain.drainMs': '200',
      ...settings
    })
  )
  const gates = new Gates()
  const scope = app.app.tools.child('agent')
  for (const tool of fixtureTools(gates)) scope.register(tool)
  await app.app.codeRuntime
  return Object.assign(app, { gates })
}

const program = (code: string, more: Record<string, unknown> = {}) => ({
  scope: 'agent',
  name: 'run_code',
  arguments: { code, description: 'attack' },
  ...more
})

/** Processes below this one that belong to programs. */
const worlds = (): number =>
  descendants().filter((pid) => {
    try {
      return /relay\.js|bwrap/.test(readFileSync(`/proc/${pid}/cmdline`, 'latin1'))
    } catch {
      return false
    }
  }).length

/** What hostile programs of each sort come to; the server stays, and serves. */
const hostile: [name: string, kinds: string, code: string][] = [
  ['a hot loop', 'timeout', 'for(;;){}'],
  ['process.exit', 'worker-exit', 'process.exit(0)'],
  [
    'killing its parent',
    'worker-exit, exception, value',
    "try { process.kill(process.ppid, 'SIGKILL') } catch {}\nreturn 1"
  ],
  [
    'killing the server',
    'worker-exit, exception, value',
    `try { process.kill(${process.pid}, 'SIGKILL') } catch {}\nreturn 1`
  ],
  ['a heap without end', 'worker-exit', 'const h=[]; for(;;) h.push(new Array(1e4).fill(1))'],
  ['output without end', 'output-limit, timeout', "for(;;) console.log('x'.repeat(1000))"],
  ['calls without end', 'timeout, worker-exit, exception', 'for(;;) tools.add({a:1,b:2}).catch(()=>{})'],
  ['calls in turns, without end', 'timeout', 'for(;;) await tools.add({a:1,b:2})'],
  [
    'megabytes of arguments behind a call that waits',
    'timeout, worker-exit',
    "const s='x'.repeat(1e6); for(;;) { tools.gate_w({id:s}).catch(()=>{}); await new Promise(r=>setTimeout(r,1)) }"
  ],
  ['megabytes of events', 'timeout, worker-exit', "const v='x'.repeat(4e6); for(;;) await tools.mirror({v})"],
  [
    'poisoned prototypes',
    'value',
    "Object.prototype.toJSON = () => 'evil'; Array.prototype.push = () => 0; return await tools.add({a:1,b:2})"
  ],
  ['a forged reply', 'value, exception', 'Promise.prototype.then = function () { return this }; return 1']
]

describe('hostile programs through POST /invoke', () => {
  it('none ends the server, or starves it; no process is left', timeout, async () => {
    const app = await startCodeApp({
      'codeRuntime.computeMs': '800',
      'codeRuntime.maxWallMs': '3000',
      'codeRuntime.maxOldGenerationSizeMb': '64',
      'codeRuntime.maxRssMb': '300',
      'codeRuntime.maxOutputBytes': String(megabyte)
    })
    const before = process.memoryUsage().rss
    for (const [name, kinds, code] of hostile) {
      const answering = app.invoke(program(code))
      const latencies: number[] = []
      let isDone = false
      void answering.finally(() => (isDone = true)).catch(() => undefined)
      while (!isDone) {
        const asked = performance.now()
        expect((await app.served.call('/health/live')).status).toBe(200)
        latencies.push(performance.now() - asked)
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      const answer = await answering
      const kind = answer.isError ? /\((\S+)\)/.exec(answer.error?.message ?? '')?.[1] : 'value'
      expect(kinds.split(', '), `${name}: ${answer.error?.message?.slice(0, 300)}`).toContain(kind)
      // 1 s on a quiet machine; the bound here only tells starvation from load.
      expect(Math.max(0, ...latencies), name).toBeLessThan(5_000)
      expect((await app.invoke(program('return await tools.add({ a: 1, b: 2 })'))).value).toEqual({
        logs: [],
        result: 3
      })
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(1_000 * megabyte)
    await app.app.close()
    await until(() => worlds() === 0)
  })

  it('twenty runs at once: each has its own answer and its own world', timeout, async () => {
    const app = await startCodeApp({ 'codeRuntime.maxConcurrentRuns': '4' })
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        app.invoke(
          program(
            `globalThis.seen = (globalThis.seen ?? 0) + 1
            const sums = await Promise.all([1, 2, 3].map((b) => tools.add({ a: ${n}, b })))
            return [sums, globalThis.seen]`,
            { session: `s-${n}` }
          )
        )
      )
    )
    expect(answers.map(({ value }) => (value as { result: unknown }).result)).toEqual(
      Array.from({ length: 20 }, (_, n) => [[n + 1, n + 2, n + 3], 1])
    )
    for (const n of [0, 7, 19]) {
      const types = (await app.events(`s-${n}`)).map(({ type }) => type)
      expect(types.filter((type) => type.startsWith('tool/code-dispatch'))).toHaveLength(6)
      expect(types.at(-1)).toBe('tool/result')
    }
  })

  it('a storm of cancellations: every call is answered, every start has its settle, in order', timeout, async () => {
    const app = await startCodeApp({ 'codeRuntime.maxConcurrentRuns': '4' })
    const sessions = Array.from({ length: 20 }, (_, n) => `s-${n}`)
    const answers = sessions.map((session, n) =>
      app.invoke(
        program(
          n % 2 === 0
            ? 'for(;;) await tools.add({a:1,b:2})'
            : 'await Promise.all([1,2,3].map((i) => tools.nap({ms:60000,id:String(i)})))',
          { session, callId: 'c1' }
        )
      )
    )
    for (const [n, session] of sessions.entries()) {
      await new Promise((resolve) => setTimeout(resolve, (n % 5) * 15))
      await app.cancel('c1', session)
    }
    for (const answer of await Promise.all(answers)) {
      expect(['CODE_RUN_FAILED', 'ABORTED_BEFORE_DISPATCH']).toContain(answer.error?.info?.code)
    }
    for (const session of sessions) {
      const events = await app.events(session)
      const ids = (type: string) =>
        events.filter((event) => event.type === type).map(({ data }) => data.subCallId as string)
      expect(ids('tool/code-dispatch')).toEqual(ids('tool/code-dispatch-start'))
      expect(events.at(-1)?.type).toBe('tool/result')
    }
    expect((await app.invoke(program('return 1'))).value).toEqual({ logs: [], result: 1 })
  })

  it(
    'C067 the server is closed while programs run: all end, all are in the log, nothing is left',
    timeout,
    async () => {
      const app = await startCodeApp()
      const answers = [
        app.invoke(program("console.log('in'); for(;;){}", { session: 'a' })),
        app.invoke(program("console.log('in'); for(;;){}", { session: 'b' })),
        app.invoke(program("await tools.gate_r({ id: 'g' })", { session: 'c' }))
      ].map((answer) => answer.catch((error: unknown) => String(error)))
      await until(() => app.gates.entered.length === 1)
      const runtime = await app.app.codeRuntime
      await until(() => runtime?.load().running === 3)
      await app.app.close()
      for (const answer of await Promise.all(answers)) {
        expect(answer).toMatchObject({ error: { message: expect.stringContaining('(abort)') } })
      }
      expect(app.gates.aborted).toEqual(['g'])
      await expect(runtime?.run({ program: 'return 1', bindings: [] })).rejects.toThrow(/disposed/)
      await until(() => worlds() === 0)
    }
  )
})
