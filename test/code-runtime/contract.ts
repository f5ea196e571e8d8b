import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RuntimeBudgets } from '../../server/code-runtime/budgets.ts'
import type { CodeRuntime, FailureKind, RunResult } from '../../server/code-runtime/code-runtime.ts'
import { fixtureFunctions, runProgram, toolsBinding } from '../helpers/code-runtime.ts'
import { until } from '../helpers/until.ts'

type Open = (budgets?: Partial<RuntimeBudgets>) => Promise<CodeRuntime>

const failed = (kind: FailureKind, message: unknown = expect.any(String)) =>
  expect.objectContaining({ error: { kind, message } }) as RunResult
const containing = (text: string) => expect.stringContaining(text) as string

/** A few of C023; all of them are tried where the text is made (world/lossless-text.test.ts). */
const rejectedCompletions = [
  'NaN',
  'new Map()',
  '(() => { const a = {}; a.a = a; return a })()',
  '{ get a() { throw 1 } }'
]

/**
 * What every TypeScript backend does (code-mode.md §5 to §15). `cannot` names the cases that a backend cannot pass, with the reason:
 * they are shown as skipped.
 */
export function describeContract(open: Open, cannot: Readonly<Record<string, string>> = {}): void {
  const names = new Set<string>()
  const check = (name: string, body: () => Promise<void>, timeout = 60_000) => {
    names.add(name)
    const reason = cannot[name]
    if (reason === undefined) it(name, { timeout }, body)
    else it.skip(`${name} (not here: ${reason})`, body)
  }

  let runtime: CodeRuntime
  // One that ends programs soon, and one that gives them little memory.
  let hasty: CodeRuntime
  let tight: CodeRuntime
  const run = (program: string, more?: Parameters<typeof runProgram>[2]) => runProgram(runtime, program, more)

  /** Runs with a runtime of its own. */
  async function using<T>(budgets: Partial<RuntimeBudgets>, body: (own: CodeRuntime) => Promise<T>): Promise<T> {
    const own = await open({ spareWorlds: 0, ...budgets })
    try {
      return await body(own)
    } finally {
      await own.dispose()
    }
  }

  beforeAll(async () => {
    process.env.SECRET = '1'
    runtime = await open({ spareWorlds: 3 })
    hasty = await open({ computeMs: 500, maxWallMs: 4_000 })
    tight = await open({ maxOldGenerationSizeMb: 64, maxRssMb: 300 })
  }, 60_000)

  afterAll(async () => {
    delete process.env.SECRET
    await Promise.all([runtime, hasty, tight].map((each) => each.dispose()))
  }, 30_000)

  describe('values', () => {
    check('C021 a plain program', async () => {
      const program = "interface P{x:number}\nconst p: P = {x:1} as P;\nconsole.log('point', p);\nreturn p.x + 1"
      await expect(run(program)).resolves.toEqual({ logs: ['point { x: 1 }'], value: 2 })
    })

    check('C022 completions of every root, and none', async () => {
      await Promise.all([
        ...['null', '0', '""', '[1,{"a":[null]}]'].map((value) =>
          expect(run(`return ${value}`)).resolves.toEqual({ logs: [], value: JSON.parse(value) })
        ),
        ...['return undefined', ''].map(async (program) => expect(Object.keys(await run(program))).toEqual(['logs'])),
        ...['return Promise.resolve(5)', 'return { then(r) { r(5) } }'].map((program) =>
          expect(run(program)).resolves.toMatchObject({ value: 5 })
        )
      ])
    })

    check('C023 completions that are not lossless JSON', async () => {
      const outcomes = await Promise.all(rejectedCompletions.map((expression) => run(`return ${expression}`)))
      expect(outcomes.map(({ error }) => error?.kind)).toEqual(rejectedCompletions.map(() => 'invalid-output'))
      await expect(run('return { rows: [{}, { at: new Date(0) }] }')).resolves.toEqual(
        failed('invalid-output', containing('$.rows[1].at: Date is not JSON'))
      )
    })

    check(
      '§9 what is accepted: shared parts, other realms, proxies, frozen and null-prototype objects, getters read once',
      async () => {
        const program = `const vm = await import('node:vm'); const same = { a: 1 }; let reads = 0
        const record = Object.create(null); record.n = Object.freeze([1])
        return [same, same, vm.runInNewContext('({ a: [1] })'), new Proxy({ p: 1 }, {}), record, { get g() { return ++reads } }, JSON.parse('{"__proto__":1}'), '\\ud800']`
        const { value } = await run(program)
        expect(JSON.stringify(value)).toBe(
          '[{"a":1},{"a":1},{"a":[1]},{"p":1},{"n":[1]},{"g":1},{"__proto__":1},"\\ud800"]'
        )
      }
    )

    check('C025 lossy arguments never reach the function', async () => {
      const seen: unknown[] = []
      const functions = fixtureFunctions({ mirror: async (value) => seen.push(value) })
      const program = `const cycle = []; cycle.push(cycle); const messages = []
        for (const x of [[], [{ n: NaN }], [{ d: new Date() }], [() => 1], [{ a: undefined }], [cycle]]) {
          try { await tools.mirror(...x) } catch (e) { messages.push([e instanceof ToolCallError, e.toolName, e.message.includes('lossless JSON')]) }
        }
        return [messages, await tools.mirror({}), await tools.add({ a: 1, b: 2 }, 99)]`
      const { value } = await run(program, { bindings: [toolsBinding(functions)] })
      expect(value).toEqual([Array.from({ length: 6 }, () => [true, 'mirror', true]), 1, 3])
      expect(seen).toEqual([{}])
    })

    check('C028 depth in all three positions', async () => {
      const { value } = await run(
        `let v = 'leaf'; for (let i = 0; i < 3000; i += 1) v = [v]\nreturn await tools.mirror(v)`
      )
      let depth = 0
      let at = value
      for (; Array.isArray(at); at = at[0]) depth += 1
      expect([depth, at]).toEqual([3000, 'leaf'])
      await expect(run('return new Array(50000).fill(7)')).resolves.toMatchObject({
        value: Array.from({ length: 50_000 }, () => 7)
      })
    })

    check('arguments and completions of more values than the server can look at', async () => {
      await expect(
        run('const one = {}; return await tools.mirror(new Array(300_000).fill(one)).catch((e) => e.message)')
      ).resolves.toMatchObject({ value: containing('250000 values') })
      await expect(run('return new Array(300_000).fill(0)')).resolves.toEqual(
        failed('output-limit', containing('250000 values'))
      )
    })

    check('calls under way hold so many bytes of arguments; when they are done, so may others', async () => {
      const program = `const text = 'x'.repeat(24 * 1024 * 1024)
        const calls = [tools.hold(text), tools.hold(text)]
        const refused = await tools.mirror(text).catch((e) => e.message)
        await tools.release(1); await Promise.all(calls)
        return [refused, await tools.hold(text)]`
      let release = (): void => undefined
      const held = new Promise<void>((resolve) => (release = resolve))
      const functions = fixtureFunctions({ hold: async () => (await held, 1), release: async () => (release(), 1) })
      await expect(run(program, { bindings: [toolsBinding(functions)] })).resolves.toMatchObject({
        value: [containing('64 MiB'), 1]
      })
    })

    check('C028 intermediate values are not charged', () =>
      using({ maxOutputBytes: 200 }, async (own) => {
        await expect(runProgram(own, "return (await tools.mirror('x'.repeat(1e6))).length")).resolves.toEqual({
          logs: [],
          value: 1e6
        })
      })
    )

    check('a result that is not lossless JSON is a failed call', async () => {
      await expect(run('try { await tools.lossy({}) } catch (e) { return e.message }')).resolves.toMatchObject({
        value: containing('not lossless JSON: $.at')
      })
    })

    check('arguments are copied when the call is made', async () => {
      await expect(
        run('const o = { a: 1 }; const p = tools.mirror(o); o.a = 2; return await p')
      ).resolves.toMatchObject({ value: { a: 1 } })
    })
  })

  describe('the world', () => {
    check('C030 output in order and in form', async () => {
      const program = `console.log('a'); process.stdout.write('b\\n'); process.stderr.write('c'); console.error({ k: 1n }); console.log(); await new Promise(r => process.stdout.write('d', r)); return typeof console.table`
      await expect(run(program)).resolves.toEqual({ logs: ['a', 'b\n', 'c', '{ k: 1n }', '', 'd'], value: 'undefined' })
      await expect(
        run("Promise.resolve().then(() => console.log('m')); setTimeout(() => console.log('t'), 50); return 1")
      ).resolves.toEqual({ logs: ['m'], value: 1 })
      await expect(run("console.log('%s is %d', 'x', 4, [1])")).resolves.toEqual({ logs: ['x is 4 [ 1 ]'] })
    })

    check('output past the console comes after it', async () => {
      const program =
        "const fs = await import('node:fs'); fs.writeSync(1, 'raw'); Object.getPrototypeOf(process.stderr).write.call(process.stderr, 'past'); console.log('l')"
      await expect(run(program)).resolves.toEqual({ logs: ['l', 'raw', 'past'] })
    })

    check('C014 names of every kind are own functions that cannot be changed', async () => {
      const program = `const tried = []; try { tools.add = 1 } catch (e) { tried.push(e.name) }
        return [await tools["my-tool"]({}), await tools["3d"]({}), await tools.class({}), await tools["__proto__"]({}), await tools.constructor({}), typeof tools.toString, Object.getPrototypeOf(tools), tried, tools.add.name]`
      const { value } = await run(program)
      expect(value).toEqual([
        'my-tool-ok',
        '3d-ok',
        'class-ok',
        '__proto__-ok',
        'constructor-ok',
        'undefined',
        null,
        ['TypeError'],
        'add'
      ])
    })

    check('C065 an empty environment', async () => {
      const program = `return [Object.keys(process.env), process.execArgv.length, typeof require, typeof module, JSON.stringify(globalThis.workerData ?? null), String(this), (await import('node:worker_threads')).workerData ?? null]`
      await expect(run(program)).resolves.toEqual({
        logs: [],
        value: [[], 0, 'undefined', 'undefined', 'null', 'undefined', null]
      })
    })

    check('C066 a fresh world for every run', async () => {
      await run("globalThis.leak = 1; Object.prototype.leak = 2; process.env.L = '3'; tools.extra = 4; return 1")
      const look =
        'return [typeof globalThis.leak, ({}).leak ?? null, Object.keys(process.env).length, typeof tools.extra]'
      const results = [await run(look), ...(await Promise.all(Array.from({ length: 4 }, () => run(look))))]
      for (const { value } of results) expect(value).toEqual(['undefined', null, 0, 'undefined'])
    })

    check('several namespaces, and one without an error class', async () => {
      const program =
        'try { await two.f(1) } catch (e) { return [await one.f(2), e.message, e.name, typeof OneError, Object.keys(e)] }'
      const bindings = [
        {
          global: 'one',
          functions: { f: async (n: unknown) => n },
          errorClass: { name: 'OneError', memberNameProperty: 'member' }
        },
        { global: 'two', functions: { f: async () => Promise.reject(new Error('no')) } }
      ]
      await expect(run(program, { bindings })).resolves.toEqual({ logs: [], value: [2, 'no', 'Error', 'function', []] })
    })

    check('log entries are told before the call that follows them is made', async () => {
      const heard: string[] = []
      const functions = fixtureFunctions({ mirror: async (name) => (heard.push(`call ${String(name)}`), 1) })
      const program = `for (let n = 0; n < 20; n += 1) { console.log('log ' + n); await tools.mirror(n) }`
      await run(program, { bindings: [toolsBinding(functions)], onLog: (text) => heard.push(text) })
      expect(heard).toEqual(Array.from({ length: 20 }, (_, n) => [`log ${n}`, `call ${n}`]).flat())
    })

    check('log entries are told as they come', async () => {
      const heard: string[] = []
      let heardBefore = -1
      const functions = fixtureFunctions({ mirror: async () => (heardBefore = heard.length) })
      const program =
        "console.log('a'); console.log('b'); await new Promise(r => setTimeout(r, 300)); return await tools.mirror(1)"
      await run(program, { bindings: [toolsBinding(functions)], onLog: (text) => heard.push(text) })
      expect([heard, heardBefore]).toEqual([['a', 'b'], 2])
    })

    check('a flood of log entries is told whole, in fewer texts', async () => {
      const heard: string[] = []
      const program = 'for (let i = 0; i < 20_000; i++) console.log(String(i))'
      const { logs } = await run(program, { onLog: (text) => heard.push(text) })
      expect(heard.join('\n')).toBe(logs.join('\n'))
      expect([logs.length, heard.length < 20_000]).toEqual([20_000, true])
    })
  })

  describe('errors', () => {
    check('C031 the shape of a failed call', async () => {
      const program = `try { await tools.fail({why:'no'}) } catch (e) { return [e instanceof ToolCallError, e instanceof Error, Object.keys(e).sort(), e.name, e.toolName, e.message, 'code' in e, 'content' in e, ToolCallError.name] }`
      await expect(run(program)).resolves.toMatchObject({
        value: [true, true, ['name', 'toolName'], 'ToolCallError', 'fail', 'no', false, false, 'ToolCallError']
      })
    })

    check('C032 an uncaught failure, with the line of the call', async () => {
      await expect(run("console.log('x')\nawait tools.fail({})")).resolves.toEqual({
        logs: ['x'],
        error: { kind: 'exception', message: 'ToolCallError: deliberate\n    at program:2:13' }
      })
    })

    check('C033 lines without paths', async () => {
      await expect(run('const a: number = 1\n\nthrow new TypeError("bad")')).resolves.toEqual(
        failed('exception', 'TypeError: bad\n    at program:3:7')
      )
      const { error } = await run('const x = 1\nfunction helper(): never { throw new Error("deep") }\n\n\nhelper()')
      expect(error?.message).toBe('Error: deep\n    at helper (program:2:34)\n    at program:5:1')
      const own = await run("console.log(new Error('shown'))\nreturn new Error('s').stack")
      expect(JSON.stringify(own)).not.toMatch(/node:internal|code-runtime|file:/)
    })

    check('C034 what is not erasable', async () => {
      const refused = [
        'enum E {A}',
        'const enum E {A}',
        'namespace N {export const a=1}',
        'class C{constructor(private x:number){}}',
        'const x=<number>(5 as any)',
        "import fs from 'fs'",
        'const = 3'
      ]
      for (const program of refused) {
        const { error } = await run(`\n${program}`)
        expect(error?.kind, program).toBe('exception')
        expect(error?.message, program).toMatch(/^SyntaxError: [^\n]+ \(program:2:\d+\)$/)
        expect(error?.message).not.toMatch(/async function|object Object/)
      }
      await expect(run('declare enum E {A}\nreturn 1')).resolves.toMatchObject({ value: 1 })
      await expect(run("return typeof (await import('node:path')).join")).resolves.toMatchObject({ value: 'function' })
      await expect(run('return 1 } function y() { return 2')).resolves.toEqual(
        failed('exception', containing('SyntaxError'))
      )
      await expect(run('@dec class A {}')).resolves.toEqual(failed('exception', containing('SyntaxError')))
      await expect(run('return "\ud800"')).resolves.toEqual(failed('exception'))
    })

    check('C037 thrown values', async () => {
      await Promise.all([
        expect(run('throw "s"')).resolves.toEqual(failed('exception', 's')),
        expect(run('throw undefined')).resolves.toEqual(failed('exception', 'undefined')),
        expect(run('throw {a:1}')).resolves.toEqual(failed('exception', '{ a: 1 }')),
        expect(run('throw {toString(){throw 1}}')).resolves.toEqual(failed('exception')),
        expect(run('throw Object.create(null)')).resolves.toEqual(failed('exception')),
        expect(run("throw new Error('o',{cause:new Error('i')})")).resolves.toEqual(
          failed('exception', containing('\ncaused by: Error: i'))
        )
      ])
    })

    check('C038 F75 stray failures', async () => {
      await Promise.all([
        expect(run('tools.fail({}); await new Promise(r=>setTimeout(r,2000)); return 1')).resolves.toEqual(
          failed('exception', containing('deliberate'))
        ),
        expect(
          run("setTimeout(()=>{throw new Error('late')},10); await new Promise(r=>setTimeout(r,2000)); return 1")
        ).resolves.toEqual(failed('exception', containing('late'))),
        expect(run('Promise.reject(1); await new Promise(r=>setTimeout(r,2000))')).resolves.toEqual(
          failed('exception', '1')
        )
      ])
    })

    check('a binding that throws what cannot be shown', async () => {
      const functions = fixtureFunctions({
        // oxlint-disable-next-line prefer-promise-reject-errors -- the case
        mirror: () =>
          Promise.reject({
            toString: () => {
              throw new Error('x')
            }
          })
      })
      await expect(
        run('try { await tools.mirror(1) } catch (e) { return e.message }', { bindings: [toolsBinding(functions)] })
      ).resolves.toMatchObject({ value: expect.any(String) })
    })
  })

  describe('budgets', () => {
    check('C051 F75 hot loops', async () => {
      await expect(runProgram(hasty, "console.log('in'); for(;;){}")).resolves.toEqual({
        logs: ['in'],
        error: { kind: 'timeout', message: expect.stringMatching(/compute.*500/) }
      })
      for (const program of [
        "return /^(a+)+$/.test('a'.repeat(40)+'b')",
        'Promise.resolve().then(()=>{while(true){}}); await new Promise(()=>{})',
        '(async()=>{for(;;)await 0})(); await new Promise(()=>{})',
        'tools.hang({}); for(;;){}'
      ]) {
        await expect(runProgram(hasty, program)).resolves.toEqual(failed('timeout', containing('500')))
      }
    })

    check('a blocked thread is busy', async () => {
      await expect(runProgram(hasty, 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)')).resolves.toEqual(
        failed('timeout', containing('compute'))
      )
    })

    check('a nested worker is charged', async () => {
      const program =
        "const { Worker } = await import('node:worker_threads'); new Worker('for (;;);', { eval: true }); await new Promise(() => {})"
      await expect(runProgram(hasty, program)).resolves.toEqual(failed('timeout', containing('compute')))
    })

    check('C053 F77 waiting is free, idling is not endless', async () => {
      await expect(runProgram(hasty, "return await tools.nap({ms:1000,id:'n'})")).resolves.toEqual({
        logs: [],
        value: 'n'
      })
      await expect(runProgram(hasty, 'await new Promise(()=>{})')).resolves.toEqual(
        failed('timeout', expect.stringMatching(/wall.*4000/))
      )
    })

    check('C054 the ledger to the byte', async () => {
      const cases: [program: string, passes: number, kind?: FailureKind][] = [
        ['console.log("héllo"); return [1,2,3]', 17],
        ['console.log("abc"); throw "xy"', 11, 'exception']
      ]
      const limits = cases.flatMap(([program, limit, kind]) => [
        { program, maxOutputBytes: limit, kind },
        { program, maxOutputBytes: limit - 1, kind: 'output-limit' }
      ])
      await Promise.all(
        limits.map(({ program, maxOutputBytes, kind }) =>
          using({ maxOutputBytes }, async (own) => {
            const { logs, error } = await runProgram(own, program)
            expect(error?.kind, `${program} at ${maxOutputBytes}`).toBe(kind)
            if (error)
              expect(
                Buffer.byteLength(JSON.stringify(logs)) + Buffer.byteLength(JSON.stringify(error.message))
              ).toBeLessThanOrEqual(maxOutputBytes)
          })
        )
      )
      await using({ maxOutputBytes: 4 }, async (own) => {
        await expect(runProgram(own, 'return 1')).resolves.toEqual({ logs: [], value: 1 })
        await expect(runProgram(own, 'return "x"')).resolves.toEqual({
          logs: [],
          error: { kind: 'output-limit', message: '' }
        })
        await expect(runProgram(own, 'enum E {A}')).resolves.toEqual({
          logs: [],
          error: { kind: 'output-limit', message: '' }
        })
      })
    })

    check('§10 a prefix of the logs is kept', () =>
      using({ maxOutputBytes: 200 }, async (own) => {
        const { logs, error } = await runProgram(own, "console.log('first'); console.log('😀'.repeat(200)); return 1")
        expect(error?.kind).toBe('output-limit')
        expect(logs[0]).toBe('first')
        expect(logs[1]).toMatch(/^(😀)+$/u)
        const bytes = Buffer.byteLength(JSON.stringify(logs)) + Buffer.byteLength(JSON.stringify(error?.message))
        expect(bytes).toBeLessThanOrEqual(200)
        expect(bytes).toBeGreaterThan(196)
      })
    )

    check('C056 R4 floods', () =>
      using({ maxOutputBytes: 4 * 1024 * 1024 }, async (own) => {
        const before = process.memoryUsage().rss
        for (const write of [
          'console.log',
          'process.stdout.write',
          'Object.getPrototypeOf(process.stdout).write.bind(process.stdout)'
        ]) {
          const { logs, error } = await runProgram(own, `const write = ${write}\nfor(;;) write('x'.repeat(1000))`)
          expect(error?.kind, write).toBe('output-limit')
          expect(logs.join('').length).toBeGreaterThan(4_000_000)
        }
        expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024)
      })
    )

    check('programs that are too large, and calls beyond those that may wait', async () => {
      await using({ maxProgramBytes: 20 }, async (own) => {
        await expect(runProgram(own, 'return 1           /**/')).resolves.toEqual(
          failed('exception', containing('maxProgramBytes (20'))
        )
      })
      await expect(
        run(
          'const all = []; for (let i = 0; i <= 10000; i += 1) all.push(tools.hang({}).catch((e) => e.message))\nreturn await Promise.race(all)'
        )
      ).resolves.toMatchObject({
        value: containing('10000')
      })
    })

    check('many entries, many calls in turn and at once, refused ones, and much text are no flood', async () => {
      const program = `const text = 'x'.repeat(1_000_000)
        for (let n = 0; n < 20_000; n += 1) console.log(n)
        for (let n = 0; n < 20_000; n += 1) Object.getPrototypeOf(process.stdout).write.call(process.stdout, n % 2 ? '.' : '')
        for (let n = 0; n < 300; n += 1) await tools.mirror(n)
        const atOnce = await Promise.all(Array.from({ length: 12_000 }, () => tools.mirror(1).catch(() => 1)))
        return [atOnce.length, (await tools.mirror(text)).length, text.repeat(5)]`
      const { value, logs, error } = await run(program)
      expect([error, logs.length, logs.at(-1)?.length]).toEqual([undefined, 20_001, 10_000])
      expect(value).toEqual([12_000, 1_000_000, 'x'.repeat(5_000_000)])
    })

    check('one at a time, one waiting, and no more', () =>
      using({ maxConcurrentRuns: 1, maxQueuedRuns: 1, spareWorlds: 1 }, async (own) => {
        const stop = new AbortController()
        const first = runProgram(own, 'await new Promise(() => {})', { signal: stop.signal })
        const second = runProgram(own, 'return 2')
        await expect(runProgram(own, 'return 3')).rejects.toMatchObject({
          code: 'OVERLOADED',
          message: expect.stringMatching(/maxConcurrentRuns.*maxQueuedRuns/)
        })
        expect(own.load()).toMatchObject({ running: 1, queued: 1, stuck: 0 })
        stop.abort('next')
        await expect(first).resolves.toEqual(failed('abort', 'next'))
        await expect(second).resolves.toMatchObject({ value: 2 })
      })
    )

    check('C058 abort', async () => {
      const stop = new AbortController()
      const functions = fixtureFunctions({ mirror: async () => (setTimeout(() => stop.abort('user-cancel'), 50), 1) })
      const outcome = run("console.log('in'); await tools.mirror(1); for(;;){}", {
        signal: stop.signal,
        bindings: [toolsBinding(functions)]
      })
      await expect(outcome).resolves.toEqual({ logs: ['in'], error: { kind: 'abort', message: 'user-cancel' } })
      await expect(run('return 1', { signal: AbortSignal.abort('before') })).resolves.toEqual({
        logs: [],
        error: { kind: 'abort', message: 'before' }
      })
    })
  })

  describe('hostile programs and the end', () => {
    check('C061 process.exit', async () => {
      await expect(run("console.log('a'); process.exit(7)")).resolves.toEqual({
        logs: ['a'],
        error: { kind: 'worker-exit', message: containing('7') }
      })
      await expect(run('process.exit(0)')).resolves.toEqual(failed('worker-exit', containing('0')))
      const { error } = await runProgram(hasty, "process.on('exit',()=>{for(;;){}}); process.exit(0)")
      expect(error).toBeDefined()
    })

    check('C062 the heap', async () => {
      await expect(runProgram(tight, 'const h=[]; for(;;) h.push(new Array(1e4).fill(1))')).resolves.toEqual(
        failed('worker-exit', containing('memory'))
      )
    })

    check('§0 an allocation that V8 aborts the process for', async () => {
      await expect(runProgram(tight, 'const a=[]; for(;;) a.push(1)')).resolves.toEqual(
        failed('worker-exit', containing('memory'))
      )
      await expect(runProgram(tight, 'return 1')).resolves.toMatchObject({ value: 1 })
    })

    check('memory outside the heap', async () => {
      await expect(runProgram(tight, 'const a = []; for (;;) a.push(Buffer.alloc(1 << 20, 1))')).resolves.toEqual(
        failed('worker-exit', containing('maxRssMb (300'))
      )
    })

    check('signals to its own process, and to its parent', async () => {
      await expect(run("process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})")).resolves.toEqual(
        failed('worker-exit')
      )
      await run("try { process.kill(process.ppid, 'SIGKILL') } catch {}\nreturn 1")
      await expect(run('return 1')).resolves.toMatchObject({ value: 1 })
    })

    check('a thread blocked in a system call', async () => {
      const program =
        "const { execFileSync } = await import('node:child_process')\nexecFileSync('/bin/sleep', ['86400'])"
      await expect(runProgram(hasty, program)).resolves.toEqual(failed('timeout'))
      expect(hasty.load().stuck).toBe(0)
    })

    check('misuse is rejected', async () => {
      await expect(run('return 1', { bindings: [toolsBinding(), toolsBinding()] })).rejects.toThrow(TypeError)
      await expect(run('return 1', { bindings: [{ global: 'console', functions: {} }] })).rejects.toThrow('reserved')
    })

    check('C067 disposal', async () => {
      const own = await open({ spareWorlds: 1 })
      let calls = 0
      const functions = fixtureFunctions({ mirror: async () => ((calls += 1), new Promise(() => {})) })
      const bindings = [toolsBinding(functions)]
      const programs = [
        'tools.mirror(1); await 0; for(;;){}',
        'tools.mirror(1); await 0; for(;;){}',
        'await tools.mirror(1)'
      ]
      const runs = programs.map((program) => runProgram(own, program, { bindings }))
      await until(() => calls === 3, 30_000)
      await own.dispose()
      for (const outcome of await Promise.all(runs)) expect(outcome).toEqual(failed('abort'))
      await expect(runProgram(own, 'return 1')).rejects.toThrow('disposed')
      await own.dispose()
    })
  })

  it('each case that is said to be impossible exists', () => {
    expect(Object.keys(cannot).filter((name) => !names.has(name))).toEqual([])
  })
}
