import { beforeEach, describe, expect, it } from 'vitest'
import { TerminalRegistry } from '../../../server/backends/terminals/terminal-registry.ts'
import type {
  OpenOptions,
  TerminalBackend,
  TerminalSend,
  TerminalSession,
  TerminalStatus
} from '../../../server/backends/terminals/terminals.ts'
import { until } from '../../helpers/until.ts'

function deferred() {
  let resolve!: () => void
  let reject!: (error: Error) => void
  const promise = new Promise<void>((res, rej) => ([resolve, reject] = [res, rej]))
  promise.catch(() => undefined)
  return { promise, resolve, reject }
}

/** A terminal whose opening, sends and closing end when the test says so. */
class HeldTerminal implements TerminalSession {
  readonly pid = 7
  readonly motd = 'hi'
  status: TerminalStatus = { kind: 'running' }
  readonly options: OpenOptions
  readonly ready = deferred()
  readonly released = deferred()
  readonly closes: ReturnType<typeof deferred>[] = []
  /** Closing does not wait for the test. */
  closesAtOnce = true

  constructor(options: OpenOptions) {
    this.options = options
    options.signal.addEventListener('abort', () => this.ready.reject(options.signal.reason as Error), { once: true })
  }

  send(): TerminalSend {
    const done = { viewport: '', waitReason: 'stdin_read', sessionStatus: this.status, truncated: false } as const
    return {
      done: Promise.resolve({ ...done, isCancelled: false }),
      released: this.released.promise,
      readOutput: async () => ({ text: '', lossy: false }),
      cancel: () => undefined
    }
  }

  close(): Promise<void> {
    const close = deferred()
    this.closes.push(close)
    if (this.closesAtOnce) close.resolve()
    return close.promise
  }

  read = async () => ({ text: 'r', totalLines: 1, lineBegin: 0, lineEnd: 1, truncated: false })
  output = async () => ({ text: '', from: 0, next: 0, lossy: false })
  input = async () => undefined
  signal = async () => 42
}

const [A, B] = [{ id: 'A' }, { id: 'A' }]
const never = new AbortController().signal
let opened: HeldTerminal[]
let held: object[]
let dead: Set<object>
let opensAtOnce: boolean
let registry: TerminalRegistry

const backend: TerminalBackend = {
  type: 'shell',
  async open(_request, options) {
    const terminal = new HeldTerminal(options)
    opened.push(terminal)
    if (opensAtOnce) terminal.ready.resolve()
    await terminal.ready.promise
    return terminal
  }
}

beforeEach(() => {
  opened = []
  held = []
  dead = new Set()
  opensAtOnce = true
  registry = new TerminalRegistry({
    maxPerOwner: 3,
    maxTotal: 5,
    maxInputBytes: 10,
    isOwnerLive: (owner) => !dead.has(owner),
    hold: (owner) => {
      held.push(owner)
      return () => void held.splice(held.indexOf(owner), 1)
    },
    onOutput: () => undefined
  })
  registry.register(backend)
})

const open = (owner: object = A, more: { name?: string; type?: string } = {}, signal = never) =>
  registry.open(owner, { type: 'shell', cwd: '/', ...more }, signal)
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'no error',
    (error: { code?: string }) => error.code
  )

describe('opening (backends.md §5.1)', () => {
  it('gives each open a number, also one that fails', async () => {
    expect(await open(A, { name: 'main' })).toEqual({
      sessionId: 'pty-1',
      name: 'main',
      type: 'shell',
      pid: 7,
      status: { kind: 'running' },
      motd: 'hi'
    })
    opensAtOnce = false
    const failing = open()
    opened[1]!.ready.reject(new Error('no'))
    await expect(failing).rejects.toThrow('no')
    opensAtOnce = true
    expect((await open()).sessionId).toBe('pty-3')
    expect(held).toEqual([A, A])
  })

  it('C32 names are an owner’s own, also of opens in progress, and hostile ones are none', async () => {
    opensAtOnce = false
    const first = open(A, { name: 'main' })
    expect(await codeOf(open(A, { name: 'main' }))).toBe('DUPLICATE_NAME')
    opened[0]!.ready.resolve()
    await first
    expect(await codeOf(open(A, { name: 'main' }))).toBe('DUPLICATE_NAME')
    opensAtOnce = true
    await open(B, { name: 'main' })
    for (const name of ['', ' a', 'a ', 'a\nb', 'a\x1b[31m', '\u202ea', 'a\u200bb', '\ud800', 'x'.repeat(65)]) {
      expect(await codeOf(open(A, { name })), JSON.stringify(name)).toBe('INVALID_NAME')
    }
    expect((await open(A, { name: '__proto__' })).name).toBe('__proto__')
    expect(registry.list(A).map(({ name }) => name)).toEqual(['main', '__proto__'])
  })

  it('refuses an unknown type, a dead owner, and too many', async () => {
    expect(await codeOf(open(A, { type: 'nope' }))).toBe('NO_BACKEND')
    expect(await codeOf(open(A, { type: '__proto__' }))).toBe('NO_BACKEND')
    expect(() => registry.register({ ...backend })).toThrow(/already/)
    dead.add(B)
    expect(await codeOf(open(B))).toBe('OWNER_NOT_LIVE')
    dead.clear()
    opensAtOnce = false
    const opens = [open(), open(), open()]
    expect(await codeOf(open())).toBe('TOO_MANY_SESSIONS')
    for (const terminal of opened) terminal.ready.resolve()
    await Promise.all(opens)
    opensAtOnce = true
    await open(B)
    await open(B)
    expect(await codeOf(open(B))).toBe('TOO_MANY_SESSIONS')
    await registry.close(A, 'pty-1')
    await open(B)
  })

  it('an owner that dies, or a call that is aborted, takes the open back and waits for that', async () => {
    opensAtOnce = false
    const orphan = open()
    dead.add(A)
    opened[0]!.ready.resolve()
    expect(await codeOf(orphan)).toBe('OWNER_NOT_LIVE')
    expect(opened[0]!.closes).toHaveLength(1)
    dead.clear()
    const abort = new AbortController()
    const aborted = open(A, {}, abort.signal)
    abort.abort(new Error('called off'))
    await expect(aborted).rejects.toThrow('called off')
    expect(registry.list(A)).toEqual([])
    expect(held).toEqual([])
    expect(registry.isUsedBy(A)).toBe(false)
    await expect(open(A, {}, abort.signal)).rejects.toThrow('called off')
    expect(opened).toHaveLength(2)
  })

  it('a rollback that fails is told', async () => {
    opensAtOnce = false
    const orphan = open()
    dead.add(A)
    opened[0]!.closesAtOnce = false
    opened[0]!.ready.resolve()
    await until(() => opened[0]!.closes.length === 1)
    opened[0]!.closes[0]!.reject(new Error('survivors'))
    await expect(orphan).rejects.toThrow('survivors')
  })
})

describe('ownership and sends', () => {
  it('C31 knows its owner by identity, and nobody else learns anything', async () => {
    await open()
    for (const act of [
      async (id: string) => registry.send(B, id, 'x'),
      (id: string) => registry.read(B, id, 0, 1),
      (id: string) => registry.signal(B, id, 'SIGINT'),
      (id: string) => registry.close(B, id)
    ]) {
      expect(await codeOf(act('pty-1'))).toBe('FOREIGN_SESSION')
      expect(await codeOf(act('pty-9'))).toBe('NO_SESSION')
      expect(await codeOf(act('constructor'))).toBe('NO_SESSION')
    }
    expect(registry.list(B)).toEqual([])
    expect(registry.all().map(({ owner, info }) => [owner === A, info.sessionId])).toEqual([[true, 'pty-1']])
  })

  it('C36 one send at a time, until it is released; reads and signals all the while', async () => {
    await open()
    const send = registry.send(A, 'pty-1', 'x')
    await send.done
    expect(() => registry.send(A, 'pty-1', 'y')).toThrow(expect.objectContaining({ code: 'SEND_ACTIVE' }))
    expect((await registry.read(A, 'pty-1', 0, 1)).text).toBe('r')
    expect(await registry.signal(A, 'pty-1', 'SIGINT')).toBe(42)
    opened[0]!.released.resolve()
    await send.released
    registry.send(A, 'pty-1', 'y')
    await opened[0]!.released.promise
    expect(() => registry.send(A, 'pty-1', 'é'.repeat(6))).toThrow()
  })

  it('C38 an exited terminal stays until it is closed, and takes no input', async () => {
    await open()
    opened[0]!.status = { kind: 'exited', exitCode: 7, signal: null }
    expect(() => registry.send(A, 'pty-1', 'x')).toThrow(expect.objectContaining({ code: 'SESSION_EXITED' }))
    expect(registry.list(A)[0]!.status).toEqual({ kind: 'exited', exitCode: 7, signal: null })
    expect(await registry.close(A, 'pty-1')).toBe('closed')
    expect(await codeOf(registry.read(A, 'pty-1', 0, 1))).toBe('NO_SESSION')
    expect(await codeOf(registry.close(A, 'pty-1'))).toBe('NO_SESSION')
  })

  it('refuses input that is too large', async () => {
    await open()
    expect(() => registry.send(A, 'pty-1', 'é'.repeat(6))).toThrow(expect.objectContaining({ code: 'INPUT_TOO_LARGE' }))
    registry.send(A, 'pty-1', 'é'.repeat(5))
  })
})

describe('the end', () => {
  it('a second close waits for the first; one that fails can be tried again', async () => {
    await open()
    const [terminal] = opened
    terminal!.closesAtOnce = false
    const first = registry.close(A, 'pty-1')
    const second = registry.close(A, 'pty-1')
    expect(() => registry.send(A, 'pty-1', 'x')).toThrow(expect.objectContaining({ code: 'SESSION_EXITED' }))
    terminal!.closes[0]!.reject(new Error('survivors'))
    await expect(first).rejects.toThrow('survivors')
    await expect(second).rejects.toThrow('survivors')
    expect(registry.list(A)).toHaveLength(1)
    const third = registry.close(A, 'pty-1')
    const fourth = registry.close(A, 'pty-1')
    terminal!.closes[1]!.resolve()
    expect(await Promise.all([third, fourth])).toEqual(['closed', 'already-closing'])
    expect(terminal!.closes).toHaveLength(2)
    expect(held).toEqual([])
  })

  it('an owner’s end closes its own, tries every one, and aborts opens', async () => {
    await open(A)
    await open(A)
    await open(B)
    opensAtOnce = false
    const opening = open(A)
    opened[0]!.closesAtOnce = false
    const closing = registry.closeOwned((owner) => owner === A)
    opened[0]!.closes[0]!.reject(new Error('survivors'))
    await expect(closing).rejects.toThrow(AggregateError)
    expect(await codeOf(opening)).toBe('OWNER_NOT_LIVE')
    expect(registry.all().map(({ info }) => info.sessionId)).toEqual(['pty-1', 'pty-3'])
    opened[0]!.closesAtOnce = true
    await registry.dispose()
    expect(registry.all()).toEqual([])
    expect(await codeOf(open(B))).toBe('SERVICE_DISPOSING')
    expect(held).toEqual([])
  })
})
