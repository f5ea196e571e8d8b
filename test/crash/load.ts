import { setTimeout as wait } from 'node:timers/promises'
import type { Background } from './background.ts'
import type { Random } from './random.ts'
import { type ServerProcess, Wrong } from './server-process.ts'

/** An answer whose last byte arrived: from then on it must hold for ever. */
export interface Acked {
  session: string
  callId: string
  callSeq: number
  resultSeq: number
  isError: boolean
  code: string | undefined
  value: unknown
}

/** A call that was sent; without an answer nothing is known of it. */
export interface Sent {
  session: string
  call: { callId: string; name: string; arguments: Record<string, unknown> }
}

/** What the server under test offers. */
export interface Features {
  approvals: boolean
  code: boolean
}

const lanes = 6
/** Those that ask for jobs and terminals, so that every life has some however short it is. */
const backgroundLanes = 2
const sessions = 5

/** A mixed load of plain calls, batches, commands, approvals, programs, jobs and terminals, which remembers what was sent and what was answered. */
export class Load {
  readonly acked: Acked[] = []
  /** Sent and not answered. */
  readonly open = new Map<string, Sent>()
  readonly #random: Random
  readonly #features: Features
  readonly #background: Background | undefined
  #count = 0

  /** Without `background` no jobs and no terminals, which stay when the load is over. */
  constructor(random: Random, features: Features, background?: Background) {
    this.#random = random
    this.#features = features
    this.#background = background
  }

  /** Sends requests from several sides at once until the server is gone, or until told. Throws at an answer that must not be. */
  async run(server: ServerProcess, end: Promise<unknown> = server.exited): Promise<void> {
    const isOver = { now: false }
    const over = end.then(() => (isOver.now = true))
    const lane = async (request: () => Promise<boolean>): Promise<void> => {
      while (!isOver.now) if (!(await request())) return
    }
    const background = this.#background
    const ask = Array.from({ length: lanes }, () => () => this.#request(server))
    if (background !== undefined) {
      const inBackground = (): Promise<boolean> =>
        this.#invoke(server, background.call(this.#callId(), this.#session()))
      ask.push(...Array.from({ length: backgroundLanes }, () => inBackground))
    }
    // Who asks at the very end is answered too: nobody else would, and the call would wait for as long as an approval may.
    const isAnswered = { now: false }
    const asked = Promise.all([...ask.map(lane), over]).finally(() => (isAnswered.now = true))
    const deciding = this.#features.approvals ? this.#decide(server, isAnswered) : undefined
    await Promise.all([asked, deciding])
  }

  /**
   * Asks again for every call that has no answer: it is attached, replayed, or runs now, and is answered at last. Then there are a job and a
   * terminal, for the next kill to meet.
   */
  async settle(server: ServerProcess): Promise<void> {
    const isOver = { now: false }
    const deciding = this.#features.approvals ? this.#decide(server, isOver) : Promise.resolve()
    await Promise.all([...this.open.values()].map((sent) => this.#invoke(server, sent)))
    await Promise.all(
      this.#background?.standing(() => this.#callId(), this.#session()).map((sent) => this.#invoke(server, sent)) ?? []
    )
    isOver.now = true
    await deciding
  }

  async #request(server: ServerProcess): Promise<boolean> {
    const dice = this.#random.next()
    const session = this.#session()
    if (dice < 0.2) return await this.#batch(server, session)
    return await this.#invoke(server, { session, call: this.#call(dice) })
  }

  #session(): string {
    return `s-${this.#random.between(0, sessions - 1)}`
  }

  #callId(): string {
    return `c-${(this.#count += 1)}`
  }

  #call(dice: number): Sent['call'] {
    const callId = this.#callId()
    const text = `${callId} ${'x'.repeat(this.#random.between(0, 40) ** 2 * 3)}`
    if (dice > 0.97) {
      const command = 'sleep 30 >/dev/null 2>&1 & setsid sleep 30 >/dev/null 2>&1 & sleep 0.2; echo done'
      return { callId, name: 'bash', arguments: { command, description: 'Leaves processes' } }
    }
    if (dice > 0.93 && this.#features.code) {
      const code = 'return [await tools.note({ text: "a" }), await tools.note({ text: "b" })]'
      return { callId, name: 'run_code', arguments: { code, description: 'Calls tools' } }
    }
    if (dice > 0.88) return { callId, name: 'note_asked', arguments: { text } }
    return {
      callId,
      name: dice > 0.8 ? 'note_alone' : 'note',
      arguments: { text, ms: this.#random.pick([0, 0, 3, 40]) }
    }
  }

  /** Whether the server is still there. */
  async #invoke(server: ServerProcess, sent: Sent): Promise<boolean> {
    this.open.set(sent.call.callId, sent)
    const answer = await answerOf(server, '/invoke', { session: sent.session, ...sent.call })
    if (answer === undefined) return !(await isGone(server))
    this.#take(sent.session, answer)
    return true
  }

  async #batch(server: ServerProcess, session: string): Promise<boolean> {
    const calls = Array.from({ length: this.#random.between(2, 5) }, () => this.#call(this.#random.next() * 0.85))
    for (const call of calls) this.open.set(call.callId, { session, call })
    const answer = await answerOf(server, '/invoke/batch', { session, calls })
    if (answer === undefined) return !(await isGone(server))
    for (const result of (answer as { results: unknown[] }).results) this.#take(session, result)
    return true
  }

  #take(session: string, body: unknown): void {
    const { callId, callSeq, resultSeq, isError, value, error, replayed } = body as Record<string, any>
    const sent = this.open.get(callId)
    this.open.delete(callId)
    const code = error?.info?.code
    this.acked.push({ session, callId, callSeq, resultSeq, isError, value, code })
    if (sent === undefined) return
    this.#background?.take(sent, {
      value,
      code: isError ? (code ?? 'UNKNOWN') : undefined,
      isReplayed: replayed === true
    })
  }

  async #decide(server: ServerProcess, isOver: { now: boolean }): Promise<void> {
    while (!isOver.now) {
      try {
        const { body } = await server.request('GET', '/approvals?state=pending')
        for (const { id } of body.approvals) {
          const decision = this.#random.next() < 0.8 ? 'allow' : 'deny'
          const { status } = await server.request('POST', `/approvals/${id}`, { decision })
          if (status !== 200 && status !== 409) throw new Wrong(`an approval was answered with ${status}`)
        }
      } catch (error) {
        if (error instanceof Wrong) throw error
        if (await isGone(server)) return
      }
      await wait(20)
    }
  }
}

/** A lost connection may be one that was idle for too long; the exit of a killed server is told a moment after its sockets close. */
const isGone = (server: ServerProcess): Promise<boolean> =>
  Promise.race([server.exited.then(() => true), wait(200).then(() => false)])

/** Undefined when the connection was lost. */
async function answerOf(server: ServerProcess, path: string, json: unknown): Promise<unknown> {
  let answer
  try {
    answer = await server.request('POST', path, json)
  } catch {
    return undefined
  }
  if (answer.status !== 200) throw new Wrong(`${path} answered ${answer.status} ${JSON.stringify(answer.body)}`)
  return answer.body
}
