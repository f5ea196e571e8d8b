import { describe, expect, it } from 'vitest'
import { addHook } from '../../server/pipeline/hooks.ts'
import { text } from '../../server/authoring/content.ts'
import { Lane } from '../../server/code-mode/lane.ts'
import { loadConfig } from '../../server/config/load.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { CodeModeFixture, type CodeModeOptions, scripted, textOf, valueOf } from '../helpers/code-mode-fixture.ts'
import { codeOf, deferred, isPending, messageIn } from '../helpers/pipeline-fixture.ts'
import { until } from '../helpers/until.ts'

type Tools = Parameters<Parameters<typeof scripted>[0]>[0]

const running = (script: (tools: Tools) => Promise<unknown>, more: CodeModeOptions = {}): CodeModeFixture =>
  new CodeModeFixture({ runtime: scripted(script), ...more })

const messageOf = (error: unknown): string => (error as Error).message

describe('the lane of a program (code-mode.md §13.4)', () => {
  it.each([
    [2, 2],
    [1, 1],
    [10, 10]
  ])(
    'C041 with maxParallelSubCalls %i at most %i bodies overlap, started in order',
    async (maxParallelSubCalls, peak) => {
      const ids = Array.from({ length: 12 }, (_, index) => String.fromCharCode(97 + index))
      const fixture = running((tools) => Promise.all(ids.map((id) => tools['gate_r']!({ id }))), {
        maxParallelSubCalls
      })
      const { gates } = fixture
      const result = fixture.run('')
      for (const [index, id] of ids.entries()) {
        await until(() => gates.entered.length === Math.min(ids.length, index + peak))
        gates.release(id)
      }
      expect(valueOf(await result).result).toEqual(ids)
      expect([gates.peak, gates.entered]).toEqual([peak, ids])
    }
  )

  it('C041 a cap that is no positive integer is refused, in the configuration and by the lane', () => {
    for (const cap of ['0', '-1', '1.5', 'x']) {
      expect(() => loadConfig({ flags: new Map([['codeMode.maxParallelSubCalls', cap]]) })).toThrow(
        /maxParallelSubCalls/
      )
      expect(() => new Lane(Number(cap))).toThrow(/maxParallelSubCalls/)
    }
    expect(loadConfig().config.codeMode.maxParallelSubCalls).toBe(10)
  })

  it('C042 an exclusive call waits for all before it, and holds all behind it until its post-execute has ended [core-29.scheduling]', async () => {
    const fixture = running((tools) =>
      Promise.all(
        [
          ['gate_r', 'r1'],
          ['gate_r', 'r2'],
          ['gate_w', 'w'],
          ['gate_r', 'r3']
        ].map(([name, id]) => tools[name!]!({ id: id! }))
      )
    )
    const { gates } = fixture
    const slow = deferred()
    addHook(fixture.tree.global, 'postExecute', async (exec, _result, next) => {
      if (exec.name === 'gate_w') await slow.promise
      return next()
    })
    const result = fixture.run('')
    await until(() => gates.entered.length === 2)
    gates.release('r2')
    await until(() => gates.left.includes('r2'))
    expect(gates.entered).toEqual(['r1', 'r2'])
    gates.release('r1', 'r3')
    await until(() => gates.entered.includes('w'))
    expect(fixture.ev).toEqual(['S 1 gate_r', 'S 2 gate_r', 'D 1 gate_r ok', 'D 2 gate_r ok', 'S 3 gate_w'])
    gates.release('w')
    await until(() => gates.left.includes('w'))
    expect(await isPending(result)).toBe(true)
    expect(gates.entered).toEqual(['r1', 'r2', 'w'])
    slow.resolve()
    expect(valueOf(await result).result).toEqual(['r1', 'r2', 'w', 'r3'])
    expect(fixture.ev.slice(4)).toEqual(['S 3 gate_w', 'D 3 gate_w ok', 'S 4 gate_r', 'D 4 gate_r ok'])
  })

  it('C043 values, contexts and events come in the order of submission: a race yields the slow call that came first', async () => {
    const fixture = running(async (tools) => {
      const calls = [tools['gate_r']!({ id: 'slow' }), tools['add']!({ a: 1, b: 2 })]
      calls[1]!.then(() => order.push('fast'), messageOf)
      calls[0]!.then(() => order.push('slow'), messageOf)
      return Promise.race(calls)
    })
    const order: string[] = []
    const result = fixture.run('')
    await until(() => fixture.ev.length === 2)
    expect([fixture.ev, order]).toEqual([['S 1 gate_r', 'S 2 add'], []])
    fixture.gates.release('slow')
    expect(valueOf(await result).result).toBe('slow')
    expect(order[0]).toBe('slow')
    expect(fixture.ev.slice(2)[0]).toBe('D 1 gate_r ok')
  })

  it('C044 policy never overlaps policy', async () => {
    const fixture = running((tools) => Promise.all([tools['add']!({ a: 1, b: 1 }), tools['add']!({ a: 2, b: 2 })]))
    const trace: string[] = []
    const slow = deferred()
    addHook(fixture.tree.global, 'preExecute', async ({ callId, parent }, next) => {
      if (parent === undefined) return next()
      trace.push(`in ${callId}`)
      if (callId.endsWith(':1')) await slow.promise
      trace.push(`out ${callId}`)
      return next()
    })
    const result = fixture.run('')
    await until(() => trace.length === 1)
    expect(await isPending(result)).toBe(true)
    expect(trace).toEqual(['in c1:code:1'])
    slow.resolve()
    await result
    expect(trace).toEqual(['in c1:code:1', 'out c1:code:1', 'in c1:code:2', 'out c1:code:2'])
  })

  it('C044 a pre-execute that throws reaches the program; body and post-execute do not run', async () => {
    const fixture = running((tools) => tools['echo']!({ value: 'x' }).catch(messageOf))
    const trace: string[] = []
    addHook(fixture.tree.global, 'preExecute', (exec, next) => {
      if (exec.name === 'echo') throw new Error('no policy today')
      return next()
    })
    addHook(fixture.tree.global, 'postExecute', (exec, _result, next) => (trace.push(exec.name), next()))
    expect(valueOf(await fixture.run('')).result).toBe('no policy today')
    expect([fixture.ev, trace]).toEqual([['S 1 echo', 'D 1 echo err'], ['run_code']])
  })

  it('a denied call takes no body slot: calls behind it start at once', async () => {
    const fixture = running(
      (tools) => Promise.all(['a', 'no', 'b'].map((id) => tools['gate_r']!({ id }).catch(messageOf))),
      { maxParallelSubCalls: 2 }
    )
    addHook(fixture.tree.global, 'preExecute', (exec, next) =>
      (exec.arguments as { id?: string }).id === 'no' ? { kind: 'deny', reason: 'not now' } : next()
    )
    const result = fixture.run('')
    await until(() => fixture.gates.entered.length === 2)
    fixture.gates.release('a', 'b')
    expect(valueOf(await result).result).toEqual(['a', 'not now', 'b'])
    expect(fixture.ev).toContain('D 2 gate_r err')
  })

  it('a waiting call is classified when it starts: a change of the registry turns it exclusive', async () => {
    const fixture = running((tools) =>
      Promise.all(['gate_w', 'gate_r', 'add'].map((name) => tools[name]!({ id: name, a: 1, b: 2 })))
    )
    const result = fixture.run('')
    await until(() => fixture.gates.entered.length === 1)
    // Shadowed by one that declares nothing.
    fixture.registry.register(
      fixture.agent.scope,
      bareTool('gate_r', { execute: (_args, { signal }) => fixture.gates.pass('bare', signal) })
    )
    fixture.gates.release('gate_w')
    await until(() => fixture.gates.entered.includes('bare'))
    expect(fixture.ev).not.toContain('S 3 add')
    fixture.gates.release('bare')
    await result
    expect(fixture.ev.slice(-4)).toEqual(['S 2 gate_r', 'D 2 gate_r ok', 'S 3 add', 'D 3 add ok'])
  })

  it('C045 what is still queued when the run ends leaves no trace [core-29.settlement]', async () => {
    const fixture = running(async (tools) => {
      const settled = [tools['gate_w']!({ id: '1' }), tools['gate_w']!({ id: '2' })]
      fates = settled.map((call) => call.then(() => 'ok', messageOf))
      await until(() => fixture.gates.entered.length === 1)
      throw new Error('stop')
    })
    let fates: Promise<string>[] = []
    const result = await fixture.run('')
    expect([codeOf(result), messageIn(result)]).toEqual([
      'CODE_RUN_FAILED',
      expect.stringMatching(/\(exception\).*stop/)
    ])
    expect(fixture.ev).toEqual(['S 1 gate_w', 'D 1 gate_w err'])
    expect(fixture.gates.aborted).toEqual(['1'])
    expect(await Promise.all(fates)).toEqual(['the run is over', 'the run is over'])
  })

  it('C045 an abort starts nothing any more, also before the program has noticed', async () => {
    const controller = new AbortController()
    const fixture = running((tools) => Promise.all(['1', '2', '3'].map((id) => tools['gate_w']!({ id }))))
    const result = fixture.run('', { signal: controller.signal })
    await until(() => fixture.gates.entered.length === 1)
    controller.abort('user-cancel')
    expect(messageIn(await result)).toBe('code run failed (abort): user-cancel')
    expect(fixture.ev).toEqual(['S 1 gate_w', 'D 1 gate_w err'])
  })

  it('a call that is made after the end is refused, and nothing else happens', async () => {
    let late: (() => Promise<unknown>) | undefined
    const fixture = running(async (tools) => void (late = () => tools['echo']!({ value: 'x' })))
    await fixture.run('')
    await expect(late?.()).rejects.toThrow('the run is over')
    expect(fixture.events).toEqual([])
  })

  it('C025 lossy arguments use up no id, and the tool does not run', async () => {
    const fixture = running(async (tools) => {
      for (const lossy of [undefined, { n: NaN }, { d: new Date() }, () => 1, { a: undefined }]) {
        refusals.push(await tools['mirror']!(lossy as never).then(() => 'ok', messageOf))
      }
      return tools['mirror']!({ v: 1 })
    })
    const refusals: string[] = []
    expect(valueOf(await fixture.run('')).result).toBe(1)
    expect(refusals).toHaveLength(5)
    for (const refusal of refusals) expect(refusal).toContain('lossless JSON')
    expect(fixture.ev).toEqual(['S 1 mirror', 'D 1 mirror ok'])
  })

  it('the calls under way may hold 64 MiB of arguments; when they are done, so may others', async () => {
    const id = 'x'.repeat(40 * 1024 * 1024)
    const fixture = running(async (tools) => {
      const first = tools['gate_r']!({ id })
      const refused = await tools['mirror']!({ v: [id] }).catch(messageOf)
      fixture.gates.release(id)
      await first
      return [refused, await tools['mirror']!({ v: [id] }).then(() => 'taken')]
    })
    expect(valueOf(await fixture.run('')).result).toEqual([expect.stringContaining('64 MiB'), 'taken'])
    expect(fixture.ev).toEqual(['S 1 gate_r', 'D 1 gate_r ok', 'S 2 mirror', 'D 2 mirror ok'])
  })

  it('a program may be given a number of calls: the next is refused, and leaves no trace', async () => {
    const fixture = running(
      async (tools) => [
        await tools['mirror']!(undefined as never).catch(messageOf),
        await tools['add']!({ a: 1, b: 1 }),
        await tools['fail']!({}).catch(messageOf),
        await tools['add']!({ a: 1, b: 1 }).catch(messageOf)
      ],
      { maxSubCalls: 2 }
    )
    expect(valueOf(await fixture.run('')).result).toEqual([
      expect.stringContaining('lossless JSON'),
      2,
      'deliberate',
      expect.stringContaining('maxSubCalls: 2')
    ])
    expect(fixture.ev).toEqual(['S 1 add', 'D 1 add ok', 'S 2 fail', 'D 2 fail err'])
    expect(valueOf(await fixture.run('')).logs).toEqual([])
  })

  it('arguments that are too large to be stored are refused; a content is, in the log alone, replaced', async () => {
    const long = 'x'.repeat(2_000)
    const fixture = running(
      async (tools) => [await tools['echo']!({ value: long }).catch(messageOf), await tools['long']!({})],
      { maxStoredPayloadBytes: 1_000 }
    )
    fixture.tools.register(bareTool('long', { execute: () => long }))
    expect(valueOf(await fixture.run('')).result).toEqual([
      expect.stringContaining('maxStoredPayloadBytes: 1000'),
      long
    ])
    expect(fixture.ev).toEqual(['S 1 long', 'D 1 long ok'])
    expect(JSON.stringify(fixture.events[1]!.data['content'])).toMatch(/2\d{3} bytes.*maxStoredPayloadBytes/)
  })

  it('arguments are those of the moment of the call', async () => {
    const fixture = running(async (tools) => {
      const args = { v: ['before'] }
      const call = tools['mirror']!(args)
      args.v[0] = 'after'
      return call
    })
    expect(valueOf(await fixture.run('')).result).toEqual(['before'])
    expect(fixture.events.map(({ data }) => data['arguments'])).toEqual([{ v: ['before'] }, { v: ['before'] }])
  })
})

describe('events (code-mode.md §13.3)', () => {
  const echo = (tools: Tools): Promise<unknown> => tools['echo']!({ value: 'a' })

  it('C050 the value does not wait for its event; the outer result does', async () => {
    let hasValue = false
    const fixture = running(async (tools) => {
      const value = await echo(tools)
      hasValue = true
      return value
    })
    const slow = deferred()
    addHook(fixture.tree.global, 'dispatchLog', async (_entry, next) => (await slow.promise, next()))
    const result = fixture.run('')
    await until(() => hasValue)
    expect(await isPending(result)).toBe(true)
    expect(fixture.ev).toEqual(['S 1 echo'])
    slow.resolve()
    expect(valueOf(await result).result).toBe('echo:a')
    expect(fixture.ev).toEqual(['S 1 echo', 'D 1 echo ok'])
    // Durations come from the two times, and the listener was slow, not the call.
    expect(fixture.events[1]!.time - fixture.events[0]!.time).toBeLessThan(1_000)
  })

  it('C050 a listener may replace the logged copy alone; one that throws leaves the original', async () => {
    for (const [hook, logged] of [
      [() => text('short'), 'short'],
      [
        () => {
          throw new Error('no')
        },
        'echo:a'
      ],
      [() => 'nonsense' as never, 'echo:a']
    ] as [() => ReturnType<typeof text>, string][]) {
      const fixture = running(echo)
      addHook(fixture.tree.global, 'dispatchLog', hook)
      expect(valueOf(await fixture.run('')).result).toBe('echo:a')
      expect(fixture.events[1]!.data['content']).toEqual(text(logged))
    }
  })

  it('more than maxParallelSubCalls unwritten events hold up the lane', async () => {
    const fixture = running((tools) => Promise.all(Array.from({ length: 6 }, () => tools['add']!({ a: 1, b: 1 }))), {
      maxParallelSubCalls: 3
    })
    const writing = deferred()
    fixture.append = () => writing.promise
    const result = fixture.run('')
    await until(() => fixture.events.length >= 3)
    expect(await isPending(result)).toBe(true)
    // Those that are being written, and at most as many that wait for their turn.
    expect(fixture.ev.filter((entry) => entry.startsWith('S')).length).toBeLessThanOrEqual(3)
    writing.resolve()
    expect(valueOf(await result).result).toEqual([2, 2, 2, 2, 2, 2])
    expect(fixture.ev.filter((entry) => entry.startsWith('D'))).toEqual([1, 2, 3, 4, 5, 6].map((n) => `D ${n} add ok`))
  })

  it('settled calls are logged in order, however long a listener takes over the first', async () => {
    const fixture = running((tools) => Promise.all(['a', 'b'].map((value) => tools['mirror']!({ v: value }))))
    const slow = deferred()
    addHook(fixture.tree.global, 'dispatchLog', async ({ subCallId }, next) => {
      if (subCallId.endsWith(':1')) await slow.promise
      else slow.resolve()
      return next()
    })
    await fixture.run('')
    expect(fixture.ev).toEqual(['S 1 mirror', 'S 2 mirror', 'D 1 mirror ok', 'D 2 mirror ok'])
  })

  it('an event that cannot be stored ends the run', async () => {
    const fixture = running(async (tools) => {
      await echo(tools)
      return new Promise(() => {})
    })
    fixture.append = () => Promise.reject(new Error('the disk is full'))
    const result = await fixture.run('')
    expect(messageIn(result)).toBe('the disk is full')
  })

  it('a fault of the machinery is a failed call, and the lane goes on', async () => {
    const fixture = running(async (tools) => [await echo(tools).catch(messageOf), await tools['add']!({ a: 1, b: 2 })])
    const { prepare } = fixture.pipeline
    fixture.pipeline.prepare = async (input) => {
      if (input.name === 'echo') throw new Error('broken')
      return prepare(input)
    }
    expect(valueOf(await fixture.run('')).result).toEqual(['broken', 3])
    expect(fixture.ev).toEqual(['S 1 echo', 'D 1 echo err', 'S 2 add', 'D 2 add ok'])
  })
})

describe('approvals inside a program', () => {
  it('are asked for the single call, one after another; a refusal reaches the program', async () => {
    const fixture = running((tools) =>
      Promise.all(['yes', 'no'].map((value) => tools['echo']!({ value }).catch(messageOf)))
    )
    const asked: string[] = []
    fixture.approver = async ({ callId, exec }) => {
      asked.push(callId)
      return { outcome: (exec.arguments as { value: string }).value === 'yes' ? 'allowed-once' : 'rejected' }
    }
    addHook(fixture.tree.global, 'preExecute', (exec, next) => (exec.name === 'echo' ? { kind: 'ask' } : next()))
    const result = await fixture.run('')
    expect(valueOf(result).result).toEqual(['echo:yes', expect.stringContaining('refused')])
    expect(asked).toEqual(['c1:code:1', 'c1:code:2'])
    expect(textOf(result)).toContain('echo:yes')
  })

  it('an edit by the approver is what runs; the events keep what the program asked for', async () => {
    const fixture = running((tools) => tools['echo']!({ value: 'a' }))
    fixture.approver = async () => ({ outcome: 'allowed-once', arguments: { value: 'edited' } })
    addHook(fixture.tree.global, 'preExecute', (exec, next) => (exec.name === 'echo' ? { kind: 'ask' } : next()))
    expect(valueOf(await fixture.run('')).result).toBe('echo:edited')
    expect(fixture.events.map(({ data }) => data['arguments'])).toEqual([{ value: 'a' }, { value: 'a' }])
  })
})
