import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { JobThread } from '../../server/threads/job-thread.ts'

type Answer = { type: 'done'; text: string }

/** What the thread does with a message: a number is how long it sleeps, in ms, without any work. */
const worker = `
  import { parentPort } from 'node:worker_threads'
  const sleep = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
  parentPort.on('message', (work) => {
    if (work === 'spin') for (;;);
    if (work === 'throw') throw new Error('oh')
    if (work === 'fill') for (const all = []; ; ) all.push(new Array(10_000).fill(work.length))
    if (typeof work === 'number') sleep(work)
    parentPort.postMessage({ type: 'done', text: String(work) })
  })
  parentPort.postMessage({ type: 'ready' })
`
const idle = 'setInterval(() => {}, 60_000)'

function open(source = worker) {
  const entry = new URL(`data:text/javascript,${encodeURIComponent(source)}`)
  const thread = new JobThread<string | number, Answer>({ entry, name: 'tests', heapMb: 32 })
  onTestFinished(() => thread.close())
  return thread
}

const done = (text: string) => ({ type: 'done', text })
const minute = 60_000

afterEach(() => {
  vi.useRealTimers()
})

describe('a thread for jobs that may never end', () => {
  it('does them in order', async () => {
    const thread = open()
    const answers = ['a', 'b', 'c'].map((work) => thread.run(work, minute))
    expect(await Promise.all(answers)).toEqual(['a', 'b', 'c'].map(done))
    expect(await thread.run('d', minute)).toEqual(done('d'))
  })

  it('kills the one that does not end, or that takes the thread with it, and does the next', async () => {
    const thread = open()
    for (const [work, type] of [
      ['spin', 'late'],
      ['throw', 'died'],
      ['fill', 'died']
    ] as const) {
      const killed = thread.run(work, type === 'late' ? 20 : minute)
      const next = thread.run('next', minute)
      expect(await killed).toEqual({ type })
      expect(await next).toEqual(done('next'))
    }
  })

  it('what counts is the time of the processor; ten times that, it ends too', async () => {
    const thread = open()
    expect(await thread.run(600, 300)).toEqual(done('600'))
    expect(await thread.run(minute, 20)).toEqual({ type: 'late' })
  })

  const block = (): void => {
    for (const end = performance.now() + 500; performance.now() < end;);
  }

  it('an answer that waits behind a busy main loop is heard', async () => {
    const thread = open()
    await thread.run('warm', minute)
    // From here the timers are next, and so come before the thread's messages.
    await nextTurn()
    const answer = thread.run('quick', 20)
    block()
    expect(await answer).toEqual(done('quick'))
  })

  it('what a thread says that is gone counts for nobody', async () => {
    const thread = open()
    for (const work of ['quick', 'throw']) {
      await thread.run('warm', minute)
      await nextTurn()
      const controller = new AbortController()
      const lost = thread.run(work, minute, controller.signal).catch(String)
      block()
      controller.abort()
      expect(await lost).toContain('AbortError')
      expect(await thread.run('next', minute)).toEqual(done('next'))
    }
  })

  it('what nobody waits for any more is not done: neither what waits nor what runs', async () => {
    const thread = open()
    await thread.run('warm', minute)
    const [running, waiting] = [new AbortController(), new AbortController()]
    const answers = [
      thread.run('spin', minute, running.signal),
      thread.run('spin', minute, waiting.signal),
      thread.run('last', minute, new AbortController().signal)
    ]
    waiting.abort(new Error('second'))
    await expect(answers[1]).rejects.toThrow('second')
    running.abort(new Error('first'))
    await expect(answers[0]).rejects.toThrow('first')
    expect(await answers[2]).toEqual(done('last'))
    await expect(thread.run('x', minute, AbortSignal.abort(new Error('before')))).rejects.toThrow('before')
    // Its job is done.
    running.abort()
    expect(await thread.run('again', minute)).toEqual(done('again'))
  })

  it('one that does not start fails what waits for it, and is tried again', async () => {
    for (const source of ['throw new Error("no")', 'import "node:nothing"']) {
      const thread = open(source)
      const answers = ['a', 'b'].map((work) => thread.run(work, minute).catch(String))
      expect(await Promise.all(answers)).toEqual(Array(2).fill('Error: The thread of tests does not start.'))
      await expect(thread.run('c', minute)).rejects.toMatchObject({ cause: expect.any(Error) })
    }
  })

  it('one that never says that it is ready does not start either', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const answer = open(idle).run('a', minute)
    vi.advanceTimersByTime(20_000)
    await expect(answer).rejects.toThrow('does not start')
  })

  it('closing ends what runs and what waits, and nothing starts after it', async () => {
    const thread = open()
    await thread.run('warm', minute)
    const answers = ['spin', 'x'].map((work) => thread.run(work, minute).catch(String))
    expect(thread.isClosed).toBe(false)
    await thread.close()
    expect(thread.isClosed).toBe(true)
    expect(await Promise.all(answers)).toEqual(Array(2).fill('Error: The thread of tests is closed.'))
    await expect(thread.run('x', minute)).rejects.toThrow('is closed')
  })
})
