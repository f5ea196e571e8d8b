import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { text } from '../../server/authoring/content.ts'
import type { CodeRuntime } from '../../server/code-runtime/code-runtime.ts'
import { openPythonRuntime } from '../../server/code-runtime/python/python-runtime.ts'
import { addHook } from '../../server/pipeline/hooks.ts'
import { timeout } from '../../plugins/policies/timeout.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { CodeModeFixture, type CodeModeOptions, textOf, valueOf } from '../helpers/code-mode-fixture.ts'
import { codeOf, contextFrom, contextsOf, isPending, messageIn } from '../helpers/pipeline-fixture.ts'
import { until } from '../helpers/until.ts'

// What bridge.test.ts proves of the TypeScript backends, in programs of Python.
describe('programs that call tools, in the python backend', () => {
  let runtime: CodeRuntime
  beforeAll(async () => {
    runtime = await openPythonRuntime({ spareWorlds: 2 })
  }, 60_000)
  afterAll(() => runtime.dispose(), 30_000)

  const fixtureWith = (options: CodeModeOptions = {}): CodeModeFixture => new CodeModeFixture({ runtime, ...options })
  const resultOf = async (program: string, fixture = fixtureWith()) => valueOf(await fixture.run(program)).result

  it('C009 output and result are rendered alike', async () => {
    expect(textOf(await fixtureWith().run("print('p')\nreturn 'r'"))).toBe('p\nr')
    expect(textOf(await fixtureWith().run("return {'n': 42, 'ok': True}"))).toBe('{\n  "n": 42,\n  "ok": true\n}')
    for (const program of ['', "return ''", "print('')"]) {
      expect(textOf(await fixtureWith().run(program))).toBe('(run_code completed with no output)')
    }
    expect(textOf(await fixtureWith().run("print('a')\nprint()\nprint('b')"))).toBe('a\n\nb')
  })

  it('C011 the bindings are the visible tools, never the transport, and fixed for the run', async () => {
    const fixture = fixtureWith({ mode: 'both' })
    fixture.registry.restrict(fixture.agent.scope, { allow: ['echo', 'add', 'gate_r'] })
    const undo = fixture.registry.register(fixture.agent.scope, bareTool('passing'))
    const result = fixture.run(`
before = sorted(tools)
await tools.gate_r({'id': 'changed'})
try:
    await tools.passing({})
except ToolCallError as error:
    return [before, hasattr(tools, 'run_code'), 'run_code' in tools, 'late' in tools, str(error)]`)
    await until(() => fixture.gates.entered.length === 1)
    undo()
    fixture.registry.register(fixture.agent.scope, bareTool('late'))
    fixture.gates.release('changed')
    expect(valueOf(await result).result).toEqual([
      ['add', 'echo', 'gate_r', 'passing'],
      false,
      false,
      false,
      expect.stringContaining('unknown tool')
    ])
  })

  it('C014 odd names', async () => {
    expect(
      await resultOf(
        "return [await tools[name]({}) for name in ('my-tool', '3d', 'class', '__proto__', 'constructor')]"
      )
    ).toEqual(['my-tool-ok', '3d-ok', 'class-ok', '__proto__-ok', 'constructor-ok'])
  })

  it('C025 lossy arguments leave no trace', async () => {
    const fixture = fixtureWith()
    const lossy = ["{'n': float('nan')}", "{'d': {1}}", 'lambda: 1', '{1: 2}', '(1, 2)', "{'n': -0.0}"]
    const program = `
seen = []
cycle = []
cycle.append(cycle)
for args in [${lossy.join(', ')}, cycle]:
    try:
        await tools.mirror(args)
    except ToolCallError as error:
        seen.append([error.toolName, 'lossless JSON' in str(error)])
return [seen, await tools.mirror({'v': 1}), await tools.add({'a': 1, 'b': 2}, 99)]`
    expect(await resultOf(program, fixture)).toEqual([[...lossy, 'cycle'].map(() => ['mirror', true]), 1, 3])
    expect(fixture.ev[0]).toBe('S 1 mirror')
    expect(fixture.ev).toHaveLength(4)
  })

  it('C028 3,000 levels pass as argument, result and completion', async () => {
    const program = "v = 'leaf'\nfor _ in range(3000):\n    v = [v]\nreturn await tools.mirror({'v': v})"
    expect(textOf(await fixtureWith().run(program)).replaceAll(/\s/g, '')).toBe(
      `${'['.repeat(3_000)}"leaf"${']'.repeat(3_000)}`
    )
  })

  it('C031 failures, denials and invalid arguments arrive the same way', async () => {
    const fixture = fixtureWith()
    addHook(fixture.tree.global, 'preExecute', (exec, next) =>
      exec.name === 'echo' ? { kind: 'deny', reason: 'not now' } : next()
    )
    const program = `
seen = []
for call in (lambda: tools.fail({'why': 'no'}), lambda: tools.echo({'value': 'x'}), lambda: tools.add({'a': 1})):
    try:
        await call()
    except ToolCallError as error:
        seen.append([error.toolName, str(error), isinstance(error, Exception), hasattr(error, 'code')])
return seen`
    expect(await resultOf(program, fixture)).toEqual([
      ['fail', 'no', true, false],
      ['echo', 'not now', true, false],
      ['add', expect.stringContaining('"b"'), true, false]
    ])
    expect(fixture.events[1]!.data).toMatchObject({ isError: true, content: text('Error: no') })
  })

  it('C032 C038 an uncaught failure of a call, awaited or not, fails the run', async () => {
    const fixture = fixtureWith()
    const result = await fixture.run("print('x')\nawait tools.fail({})")
    expect(codeOf(result)).toBe('CODE_RUN_FAILED')
    expect(messageIn(result)).toMatch(/\(exception\)[^]*deliberate[^]*Captured output:\nx$/)
    expect(fixture.ev).toEqual(['S 1 fail', 'D 1 fail err'])
    const stray = await fixtureWith().run('import asyncio\ntools.fail({})\nawait asyncio.sleep(60)')
    expect(messageIn(stray)).toMatch(/\(exception\)[^]*deliberate/)
  })

  it('C039 a call has its own deadline; the run goes on', async () => {
    const fixture = fixtureWith()
    await fixture.tools.mount(timeout)
    const program = 'try:\n    await tools.slow({})\nexcept ToolCallError as error:\n    return str(error)'
    expect(await resultOf(program, fixture)).toMatch(/timed out.*100/)
    expect(fixture.ev).toEqual(['S 1 slow', 'D 1 slow err'])
  })

  it('C040 the events and what they hold; without an agent there are none', async () => {
    const program = "await tools.echo({'value': 'one'})\nawait tools.add({'a': 1, 'b': 2})\nreturn 'k'"
    const fixture = fixtureWith()
    expect(await resultOf(program, fixture)).toBe('k')
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
    const alone = fixtureWith()
    expect(valueOf(await alone.run(program, { agent: undefined })).result).toBe('k')
    expect(alone.events).toEqual([])
  })

  it('C041 C042 gathered calls overlap up to the cap, and an exclusive one is alone', async () => {
    const fixture = fixtureWith({ maxParallelSubCalls: 2 })
    const { gates } = fixture
    const result = fixture.run(`
import asyncio
return await asyncio.gather(*[tools.gate_r({'id': id}) for id in 'abc'], tools.gate_w({'id': 'w'}), tools.gate_r({'id': 'd'}))`)
    for (const id of ['a', 'b', 'c', 'w', 'd']) {
      await until(() => gates.entered.includes(id))
      if (id === 'w') expect(gates.left).toEqual(['a', 'b', 'c'])
      gates.release(id)
    }
    expect(valueOf(await result).result).toEqual(['a', 'b', 'c', 'w', 'd'])
    expect([gates.peak, gates.entered]).toEqual([2, ['a', 'b', 'c', 'w', 'd']])
  })

  it('C045 C046 what runs when the program ends is cancelled and waited for; what is queued leaves no trace', async () => {
    const fixture = fixtureWith()
    fixture.registry.register(
      fixture.agent.scope,
      bareTool('deaf', {
        execute: async () => (await fixture.gates.pass('deaf', new AbortController().signal), 'done')
      })
    )
    const result = fixture.run(
      "import asyncio\ntools.deaf({})\ntools.echo({'value': 'x'})\nawait asyncio.sleep(0.2)\nreturn 'early'"
    )
    await until(() => fixture.gates.entered.length === 1)
    await until(() => runtime.load().running === 0)
    expect(await isPending(result)).toBe(true)
    fixture.gates.release('deaf')
    expect(valueOf(await result).result).toBe('early')
    expect(fixture.ev).toEqual(['S 1 deaf', 'D 1 deaf err'])
    expect(fixture.events[1]!.data['content']).toEqual(text('Error: tool call aborted'))
  })

  it('C048 contexts, images and a conclusion go up, in order, also when the program fails', async () => {
    const fixture = fixtureWith()
    fixture.registry.register(fixture.agent.scope, {
      ...fixture.registry.lookup('pic')!,
      name: 'pic_and_tag',
      execute: (_args, { deferContext }) => (deferContext(contextFrom('after')), 'pic')
    })
    const result = await fixture.run(
      "await tools.tag({'t': '1'})\nawait tools.pic_and_tag({})\nraise ValueError('late')"
    )
    expect(codeOf(result)).toBe('CODE_RUN_FAILED')
    expect(contextsOf(result)).toEqual(['tag', 'tools-code-mode', 'after'])
    expect(await fixtureWith().run('await tools.finish({})')).toMatchObject({ concludesTurn: true })
  })

  it('C050 the value does not wait for its event; the outer result does', async () => {
    const fixture = fixtureWith()
    let store = (): void => undefined
    const stored = new Promise<void>((resolve) => (store = resolve))
    addHook(fixture.tree.global, 'dispatchLog', async (_entry, next) => (await stored, next()))
    const result = fixture.run("await tools.echo({'value': 'a'})\nprint('has it')")
    await until(() => fixture.progress.includes('has it\n'))
    expect(await isPending(result)).toBe(true)
    expect(fixture.ev).toEqual(['S 1 echo'])
    store()
    await result
    expect(fixture.ev).toEqual(['S 1 echo', 'D 1 echo ok'])
  })

  it('C058 an abort ends a hot loop, and a call in flight', async () => {
    const fixture = fixtureWith()
    const first = new AbortController()
    const spinning = fixture.run("print('in')\nwhile True: pass", { signal: first.signal })
    await until(() => fixture.progress.includes('in\n'))
    first.abort('user-cancel')
    expect(messageIn(await spinning)).toMatch(/\(abort\)[^]*user-cancel[^]*Captured output:\nin/)
    const second = new AbortController()
    const waiting = fixture.run("await tools.gate_r({'id': 'g'})", { signal: second.signal })
    await until(() => fixture.gates.entered.length === 1)
    second.abort('user-cancel')
    expect(messageIn(await waiting)).toContain('(abort)')
    expect(fixture.ev).toEqual(['S 1 gate_r', 'D 1 gate_r err'])
  })

  it('log entries and calls are told in the order of the program', async () => {
    const fixture = fixtureWith()
    await fixture.run('for n in range(5):\n    print(n)\n    await tools.chatty({})')
    expect(fixture.progress).toEqual(
      Array.from({ length: 5 }, (_, n) => [`${n}\n`, `c1:code:${n + 1} chatty half way`]).flat()
    )
  })
})
