import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CodeRuntime } from '../../server/code-runtime/code-runtime.ts'
import { openProcessRuntime } from '../../server/code-runtime/process/process-runtime.ts'
import { openPythonRuntime } from '../../server/code-runtime/python/python-runtime.ts'
import { openWorkerRuntime } from '../../server/code-runtime/worker/worker-runtime.ts'
import { addHook, type Hooks } from '../../server/pipeline/hooks.ts'
import { text } from '../../server/authoring/content.ts'
import { timeout } from '../../plugins/policies/timeout.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { CodeModeFixture, type CodeModeOptions, textOf, valueOf } from '../helpers/code-mode-fixture.ts'
import { codeOf, contextFrom, contextsOf, isPending, messageIn } from '../helpers/pipeline-fixture.ts'
import { until } from '../helpers/until.ts'

const backends: [string, () => Promise<CodeRuntime>][] = [
  ['process', () => openProcessRuntime({ spareWorlds: 2 })],
  ['worker-thread', () => openWorkerRuntime({ spareWorlds: 2 })]
]

describe.each(backends)('programs that call tools, in the %s backend', (_name, open) => {
  let runtime: CodeRuntime
  beforeAll(async () => {
    runtime = await open()
  }, 60_000)
  afterAll(() => runtime.dispose(), 30_000)

  const fixtureWith = (options: CodeModeOptions = {}): CodeModeFixture => new CodeModeFixture({ runtime, ...options })
  const resultOf = async (program: string, fixture = fixtureWith()) => valueOf(await fixture.run(program)).result
  const failedCode = ['CODE_RUN_FAILED', expect.any(String)] as const
  const fateOf = (result: Awaited<ReturnType<CodeModeFixture['run']>>) => [codeOf(result), messageIn(result)]

  it('C011 the bindings are the visible tools, and never the transport', async () => {
    const fixture = fixtureWith({ mode: 'both' })
    fixture.registry.restrict(fixture.agent.scope, { allow: ['echo', 'add'] })
    expect(await resultOf('return Object.keys(tools).sort()', fixture)).toEqual(['add', 'echo'])
    expect(
      await resultOf('return [typeof tools.run_code, typeof tools["run_code"], "run_code" in tools]', fixture)
    ).toEqual(['undefined', 'undefined', false])
  })

  it('C011 the set is fixed for the run: what comes later is not bound, what goes is unknown', async () => {
    const fixture = fixtureWith()
    const undo = fixture.registry.register(fixture.agent.scope, bareTool('passing'))
    const result = fixture.run(`
      await tools.gate_r({ id: 'changed' })
      return [typeof tools.late, await tools.passing({}).catch((error) => error.message)]`)
    await until(() => fixture.gates.entered.length === 1)
    undo()
    fixture.registry.register(fixture.agent.scope, bareTool('late'))
    fixture.gates.release('changed')
    expect(valueOf(await result).result).toEqual(['undefined', expect.stringContaining('unknown tool')])
  })

  it('C014 odd names', async () => {
    expect(
      await resultOf(`return [await tools["my-tool"]({}), await tools["3d"]({}), await tools.class({}), await tools["__proto__"]({}),
        await tools.constructor({}), typeof tools.toString, Object.getPrototypeOf(tools)]`)
    ).toEqual(['my-tool-ok', '3d-ok', 'class-ok', '__proto__-ok', 'constructor-ok', 'undefined', null])
  })

  it('C025 lossy arguments leave no trace', async () => {
    const fixture = fixtureWith()
    const lossy = [
      '',
      '{ n: NaN }',
      '{ d: new Date() }',
      '() => 1',
      '{ a: undefined }',
      '(() => { const a = {}; a.a = a; return a })()'
    ]
    const program = `
      const seen = []
      for (const call of [${lossy.map((args) => `() => tools.mirror(${args})`).join(', ')}]) {
        await call().catch((e) => seen.push([e instanceof ToolCallError, e.toolName, e.message.includes('lossless JSON')]))
      }
      return [seen, await tools.mirror({ v: 1 }), await tools.add({ a: 1, b: 2 }, 99)]`
    expect(await resultOf(program, fixture)).toEqual([lossy.map(() => [true, 'mirror', true]), 1, 3])
    expect(fixture.ev[0]).toBe('S 1 mirror')
    expect(fixture.ev).toHaveLength(4)
  })

  it('C028 3,000 levels pass as argument, result and completion', async () => {
    const deep = `${'['.repeat(3_000)}"leaf"${']'.repeat(3_000)}`
    const program = `let v = 'leaf'; for (let i = 0; i < 3000; i++) v = [v]; return await tools.mirror({ v })`
    const result = await fixtureWith().run(program)
    let leaf: unknown = valueOf(result).result
    for (let level = 0; level < 3_000; level += 1) leaf = (leaf as unknown[])[0]
    expect(leaf).toBe('leaf')
    expect(textOf(result).replaceAll(/\s/g, '')).toBe(deep)
  })

  it('C031 the shape of a failed call [core-29.errors] [core-30.tool-call-error]', async () => {
    const fixture = fixtureWith()
    const program = `try { await tools.fail({why:'no'}) } catch (e) { return [e instanceof ToolCallError, e instanceof Error,
      Object.keys(e).sort(), e.name, e.toolName, e.message, 'code' in e, 'content' in e] }`
    expect(await resultOf(program, fixture)).toEqual([
      true,
      true,
      ['name', 'toolName'],
      'ToolCallError',
      'fail',
      'no',
      false,
      false
    ])
    expect(fixture.events[1]!.data).toMatchObject({ isError: true, content: text('Error: no') })
  })

  it('C031 denials and invalid arguments arrive the same way', async () => {
    const fixture = fixtureWith()
    addHook(fixture.tree.global, 'preExecute', (exec, next) =>
      exec.name === 'echo' ? { kind: 'deny', reason: 'not now' } : next()
    )
    const program = `const seen = []
      for (const call of [() => tools.echo({ value: 'x' }), () => tools.add({ a: 1 })]) {
        await call().catch((e) => seen.push([e instanceof ToolCallError, e.toolName, e.message]))
      }
      return seen`
    expect(await resultOf(program, fixture)).toEqual([
      [true, 'echo', 'not now'],
      [true, 'add', expect.stringContaining('"b"')]
    ])
  })

  it('C032 an uncaught failure of a call fails the run, with the output so far [core-29.errors]', async () => {
    const fixture = fixtureWith()
    const result = await fixture.run("console.log('x'); await tools.fail({})")
    expect(fateOf(result)).toEqual(failedCode)
    expect(messageIn(result)).toMatch(/\(exception\)[^]*deliberate[^]*Captured output:\nx$/)
    expect(fixture.ev).toEqual(['S 1 fail', 'D 1 fail err'])
  })

  it('C038 a failing call that nobody awaits, and an error in a timer, fail the run and not the server', async () => {
    const fixture = fixtureWith()
    const stray = await fixture.run('tools.fail({}); await new Promise(r=>setTimeout(r,2000)); return 1')
    expect(fateOf(stray)).toEqual(failedCode)
    expect(messageIn(stray)).toContain('(exception)')
    expect(fixture.ev).toEqual(['S 1 fail', 'D 1 fail err'])
    const late = await fixture.run(
      "setTimeout(()=>{throw new Error('late')},10); await new Promise(r=>setTimeout(r,2000)); return 1"
    )
    expect(messageIn(late)).toMatch(/\(exception\)[^]*late/)
  })

  it('C039 a call has its own deadline; the run goes on', async () => {
    const fixture = fixtureWith()
    await fixture.tools.mount(timeout)
    expect(await resultOf('try { await tools.slow({}) } catch (e) { return e.message }', fixture)).toMatch(
      /timed out.*100/
    )
    expect(fixture.ev).toEqual(['S 1 slow', 'D 1 slow err'])
  })

  it('C040 the events and what they hold; without an agent there are none [core-23.code-dispatch] [core-29.run-code]', async () => {
    const fixture = fixtureWith()
    const program = 'await tools.echo({value:"one"}); await tools.add({a:1,b:2}); return "k"'
    const result = await fixture.run(program)
    expect(valueOf(result).result).toBe('k')
    expect(fixture.ev).toEqual(['S 1 echo', 'D 1 echo ok', 'S 2 add', 'D 2 add ok'])
    const start = {
      rootCallId: 'c1',
      parentCallId: 'c1',
      subCallId: 'c1:code:1',
      name: 'echo',
      arguments: { value: 'one' }
    }
    expect(fixture.events[0]!.data).toEqual(start)
    expect(fixture.events[1]!.data).toEqual({ ...start, isError: false, content: text('echo:one') })
    expect(result.additionalContexts).toBeUndefined()
    const alone = fixtureWith()
    expect(valueOf(await alone.run(program, { agent: undefined })).result).toBe('k')
    expect(alone.events).toEqual([])
  })

  it('C043 a race between calls yields the one that came first; one against a timer works', async () => {
    expect(await resultOf("return Promise.race([tools.nap({ ms: 80, id: 'slow' }), tools.add({ a: 1, b: 1 })])")).toBe(
      'slow'
    )
    expect(
      await resultOf(
        "return Promise.race([tools.nap({ ms: 60000, id: 'n' }), new Promise((r) => setTimeout(r, 10, 'timer'))])"
      )
    ).toBe('timer')
  })

  it('C046 an early return cancels what still runs [core-29.settlement]', async () => {
    const fixture = fixtureWith()
    const program =
      "tools.nap({ms:60000,id:'z'}).catch(() => {}); await new Promise(r=>setTimeout(r,50)); return 'early'"
    expect(await resultOf(program, fixture)).toBe('early')
    expect(fixture.ev).toEqual(['S 1 nap', 'D 1 nap err'])
    expect(fixture.events[1]!.data['content']).toEqual(text('Error: nap aborted'))
  })

  it('C046 a body that ignores its signal is waited for, and its success is an abort in the event', async () => {
    const fixture = fixtureWith()
    fixture.registry.register(
      fixture.agent.scope,
      bareTool('deaf', {
        execute: async () => {
          await fixture.gates.pass('deaf', new AbortController().signal)
          return 'done'
        }
      })
    )
    const result = fixture.run("tools.deaf({}).catch(() => {}); await new Promise(r=>setTimeout(r,50)); return 'early'")
    await until(() => fixture.gates.entered.length === 1)
    await until(() => runtime.load().running === 0)
    expect(await isPending(result)).toBe(true)
    fixture.gates.release('deaf')
    expect(valueOf(await result).result).toBe('early')
    expect(fixture.ev).toEqual(['S 1 deaf', 'D 1 deaf err'])
    expect(fixture.events[1]!.data['content']).toEqual(text('Error: tool call aborted'))
  })

  it('C047 post-execute: a replaced value is what the program gets, a replaced content is not', async () => {
    const fixture = fixtureWith()
    addHook(fixture.tree.global, 'postExecute', (exec, _result, next) => {
      if (exec.name === 'add') return { kind: 'accept', value: 7 }
      if (exec.name === 'echo') return { kind: 'accept', content: text('hidden') }
      return next()
    })
    expect(
      await resultOf("return [await tools.add({ a: 1, b: 1 }), await tools.echo({ value: 'x' })]", fixture)
    ).toEqual([7, 'echo:x'])
    expect(fixture.events.filter((_event, index) => index % 2 === 1).map(({ data }) => data['content'])).toEqual([
      text('7'),
      text('hidden')
    ])
  })

  it('C048 contexts go up in order, also when the program fails [core-29.forwarding]', async () => {
    const result = await fixtureWith().run(
      "await tools.tag({t:'1'}); await tools.tag({t:'2'}); throw new Error('late')"
    )
    expect(fateOf(result)).toEqual(failedCode)
    expect(result.additionalContexts?.map(({ content }) => content)).toEqual([text('ctx:1'), text('ctx:2')])
  })

  it('C048 a conclusion goes up, unless policy made a failure of it [core-29.forwarding]', async () => {
    const fixture = fixtureWith()
    expect(await fixture.run('await tools.finish({}); return 1')).toMatchObject({ concludesTurn: true })
    addHook(fixture.tree.global, 'postExecute', (exec, _result, next) =>
      exec.name === 'finish' ? { kind: 'block', feedback: text('not yet') } : next()
    )
    const blocked = await fixture.run('await tools.finish({}).catch(() => {}); return 1')
    expect(blocked).not.toHaveProperty('concludesTurn')
    expect(valueOf(blocked).result).toBe(1)
  })

  it('C048 a block of the outer call drops what travelled up, and keeps what it brings', async () => {
    const fixture = fixtureWith()
    addHook(fixture.tree.global, 'postExecute', (exec, _result, next) =>
      exec.name === 'run_code'
        ? { kind: 'block', feedback: text('no'), additionalContexts: [contextFrom('block')] }
        : next()
    )
    const result = await fixture.run("await tools.tag({t:'1'}); await tools.pic({}); await tools.finish({}); return 1")
    expect(contextsOf(result)).toEqual(['block'])
    expect(result).not.toHaveProperty('concludesTurn')
  })

  it('C049 images go up as one message each, before the contexts of their call [core-29.forwarding]', async () => {
    const fixture = fixtureWith()
    fixture.registry.register(fixture.agent.scope, {
      ...fixture.registry.lookup('pic')!,
      name: 'pic_and_tag',
      execute: (_args, { deferContext }) => (deferContext(contextFrom('after')), 'pic')
    })
    const result = await fixture.run(
      "await tools.pic_and_tag({}); await tools.echo({ value: 'x' }); await tools.pic({}); return 1"
    )
    expect(contextsOf(result)).toEqual(['tools-code-mode', 'after', 'tools-code-mode'])
    const [image] = result.additionalContexts!
    expect(image).toMatchObject({ role: 'user', source: { kind: 'plugin', plugin: 'tools-code-mode' } })
    expect(image!.content).toEqual([...text('one picture'), { type: 'image', data: 'aGk=', mimeType: 'image/png' }])
    expect(new Set(result.additionalContexts!.map(({ id }) => id)).size).toBe(3)
  })

  it('C049 of images, the word of post-execute counts: no image of a failed or blocked call', async () => {
    const decisions: Record<string, ReturnType<Hooks['postExecute']>> = {
      none: { kind: 'accept', content: text('no picture') },
      block: { kind: 'block', feedback: [...text('x'), { type: 'image', data: 'aGk=' }] },
      more: { kind: 'accept', content: [{ type: 'image', data: 'bW9yZQ==' }] }
    }
    for (const [name, decision] of Object.entries(decisions)) {
      const fixture = fixtureWith()
      addHook(fixture.tree.global, 'postExecute', (exec, _result, next) => (exec.name === 'pic' ? decision : next()))
      const { additionalContexts } = await fixture.run('await tools.pic({}).catch(() => {})')
      expect([name, additionalContexts?.[0]?.content]).toEqual([
        name,
        name === 'more' ? [{ type: 'image', data: 'bW9yZQ==' }] : undefined
      ])
    }
  })

  it('C058 an abort ends a hot loop, and a call in flight', async () => {
    const fixture = fixtureWith()
    const controller = new AbortController()
    const spinning = fixture.run("console.log('in'); for(;;){}", { signal: controller.signal })
    await until(() => fixture.progress.includes('in\n'))
    controller.abort('user-cancel')
    const result = await spinning
    expect(codeOf(result)).toBe('CODE_RUN_FAILED')
    expect(messageIn(result)).toMatch(/\(abort\)[^]*user-cancel[^]*Captured output:\nin/)

    const second = new AbortController()
    const waiting = fixture.run("await tools.gate_r({ id: 'g' })", { signal: second.signal })
    await until(() => fixture.gates.entered.length === 1)
    second.abort('user-cancel')
    expect(messageIn(await waiting)).toContain('(abort)')
    expect(fixture.gates.aborted).toEqual(['g'])
    expect(fixture.ev).toEqual(['S 1 gate_r', 'D 1 gate_r err'])
  })

  it('a program runs inside another’s call: both keep the root, each has its own numbers', async () => {
    const fixture = fixtureWith()
    fixture.registry.register(
      fixture.agent.scope,
      bareTool('nested', {
        execute: async (_args, exec) => {
          const result = await fixture.pipeline.execute({
            callId: 'inner',
            rootCallId: exec.rootCallId,
            name: 'run_code',
            arguments: { code: "return await tools.echo({ value: 'deep' })", description: 'inner' },
            agent: fixture.agent,
            parent: exec.token,
            signal: exec.signal
          })
          return JSON.stringify(valueOf(result))
        }
      })
    )
    expect(await resultOf('return await tools.nested({})', fixture)).toContain('echo:deep')
    expect(fixture.events.map(({ data }) => [data['rootCallId'], data['parentCallId'], data['subCallId']])).toEqual([
      ['c1', 'c1', 'c1:code:1'],
      ['c1', 'inner', 'inner:code:1'],
      ['c1', 'inner', 'inner:code:1'],
      ['c1', 'c1', 'c1:code:1']
    ])
  })

  it('partial output of a call is told under its own id, and in order with what the program prints', async () => {
    const fixture = fixtureWith()
    await fixture.run('for (let n = 0; n < 5; n += 1) { console.log(n); await tools.chatty({}) }')
    expect(fixture.progress).toEqual(
      Array.from({ length: 5 }, (_, n) => [`${n}\n`, `c1:code:${n + 1} chatty half way`]).flat()
    )
  })

  it('hundreds of calls at once, each with its own answer', async () => {
    const fixture = fixtureWith()
    const program =
      'return (await Promise.all(Array.from({ length: 500 }, (_, a) => tools.add({ a, b: 1 })))).every((v, a) => v === a + 1)'
    expect(await resultOf(program, fixture)).toBe(true)
    expect(fixture.events).toHaveLength(1_000)
    const settled = fixture.ev.filter((entry) => entry.startsWith('D'))
    expect(settled).toEqual(settled.map((_entry, index) => `D ${index + 1} add ok`))
  })
})

describe('budgets as the bridge meets them', () => {
  const waits: [string, () => Promise<CodeRuntime>, program: string][] = [
    ['process', () => openProcessRuntime({ computeMs: 400, spareWorlds: 0 }), 'return await tools.quick({})'],
    ['worker-thread', () => openWorkerRuntime({ computeMs: 400, spareWorlds: 0 }), 'return await tools.quick({})'],
    ['python', () => openPythonRuntime({ computeMs: 400, spareWorlds: 0 }), 'return await tools.quick({})']
  ]
  it.each(waits)(
    'F75 waiting for a person bills neither compute time nor a tool’s deadline, %s',
    async (_name, open, program) => {
      const runtime = await open()
      try {
        const fixture = new CodeModeFixture({ runtime })
        fixture.tools.register(bareTool('quick', { timeoutMs: 500, execute: () => 'done' }))
        addHook(fixture.tree.global, 'preExecute', (exec, next) => (exec.name === 'quick' ? { kind: 'ask' } : next()))
        await fixture.tools.mount(timeout)
        let allow = (): void => undefined
        fixture.approver = () => new Promise((resolve) => (allow = () => resolve({ outcome: 'allowed-once' })))
        const result = fixture.run(program)
        await until(() => fixture.ev.length === 1)
        // Longer than what the program may compute, and than the deadline of the tool.
        await new Promise((resolve) => setTimeout(resolve, 900))
        allow()
        expect(valueOf(await result).result).toBe('done')
      } finally {
        await runtime.dispose()
      }
    },
    30_000
  )

  it('at the wall limit a waiting ask is withdrawn', async () => {
    const runtime = await openProcessRuntime({ maxWallMs: 700, spareWorlds: 0 })
    try {
      const fixture = new CodeModeFixture({ runtime })
      addHook(fixture.tree.global, 'preExecute', (exec, next) => (exec.name === 'echo' ? { kind: 'ask' } : next()))
      fixture.approver = ({ signal }) =>
        new Promise((resolve) =>
          signal.addEventListener('abort', () => resolve({ outcome: 'cancelled' }), { once: true })
        )
      const result = await fixture.run("await tools.echo({ value: 'x' })")
      expect(messageIn(result)).toMatch(/\(timeout\).*700/)
      expect(fixture.ev).toEqual(['S 1 echo', 'D 1 echo err'])
    } finally {
      await runtime.dispose()
    }
  }, 30_000)

  it('C028 what passes through calls is not charged as output', async () => {
    const runtime = await openProcessRuntime({ maxOutputBytes: 200, spareWorlds: 0 })
    try {
      const fixture = new CodeModeFixture({ runtime })
      expect(valueOf(await fixture.run("return (await tools.mirror({ v: 'x'.repeat(1e6) })).length")).result).toBe(
        1_000_000
      )
    } finally {
      await runtime.dispose()
    }
  }, 30_000)

  it('over the queue a run fails with OVERLOADED, before any world', async () => {
    const runtime = await openProcessRuntime({ maxConcurrentRuns: 1, maxQueuedRuns: 0, spareWorlds: 0 })
    try {
      const fixture = new CodeModeFixture({ runtime })
      const first = fixture.run("return await tools.gate_r({ id: 'g' })")
      await until(() => fixture.gates.entered.length === 1)
      const second = await fixture.run('return 1')
      expect([codeOf(second), messageIn(second)]).toEqual(['OVERLOADED', expect.stringContaining('maxQueuedRuns')])
      fixture.gates.release('g')
      expect(valueOf(await first).result).toBe('g')
    } finally {
      await runtime.dispose()
    }
  }, 30_000)

  it('C067 disposal ends all runs as aborts, after their calls have ended; a later run rejects', async () => {
    const runtime = await openProcessRuntime({ spareWorlds: 1 })
    const fixture = new CodeModeFixture({ runtime })
    const loops = [1, 2].map(() => fixture.run("console.log('in'); for(;;){}"))
    const waiting = fixture.run("await tools.gate_r({ id: 'g' })")
    await until(() => fixture.gates.entered.length === 1 && fixture.progress.length === 2)
    await runtime.dispose()
    for (const result of await Promise.all([...loops, waiting])) expect(messageIn(result)).toContain('(abort)')
    expect(fixture.gates.aborted).toEqual(['g'])
    const later = await fixture.run('return 1')
    expect([codeOf(later), messageIn(later)]).toEqual(['none', expect.stringContaining('disposed')])
  }, 30_000)
})
