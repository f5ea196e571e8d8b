import { readFileSync } from 'node:fs'
import { until } from '../helpers/until.ts'
import type { Acked, Load } from './load.ts'
import { bodiesFile, type ServerProcess } from './server-process.ts'
import type { StreamSubscriber, Subscriber } from './subscriber.ts'

/** Who hears of everything, of the calls of session `s-0`, and of everything as a stream. */
export interface Subscribers {
  all: Subscriber
  one: Subscriber
  stream: StreamSubscriber
}

interface LoggedCall {
  callSeq: number | undefined
  resultSeq: number | undefined
  code: string | undefined
}

/**
 * What must hold of a server that was killed and started again, whatever it was doing (reliability.md C1). It reads the log as a client
 * does, each time only what is new, and keeps what it knows.
 */
export class Oracle {
  readonly #home: string
  readonly #heads = new Map<string, number>()
  readonly #calls = new Map<string, LoggedCall>()
  #events = 0
  #checkedAcks = 0

  constructor(home: string) {
    this.#home = home
  }

  get events(): number {
    return this.#events
  }

  /** Throws when something is not as it must be. Nothing may be running, so that what is read stands still. */
  async check(server: ServerProcess, load: Load, subscribers?: Subscribers): Promise<void> {
    await this.#readNew(server)
    for (const acked of load.acked.slice(this.#checkedAcks)) this.#checkAcked(acked)
    this.#checkedAcks = load.acked.length
    await this.#checkUnanswered(server)
    this.#checkBodies(load)
    if (subscribers !== undefined) await this.#checkSubscribers(subscribers)
  }

  /** Every session from where it was read last: each seq follows the one before, and each call has one call and one result. */
  async #readNew(server: ServerProcess): Promise<void> {
    const { body } = await server.request('GET', '/sessions?limit=500')
    for (const { id } of body.sessions as { id: string }[]) {
      for (let after: number | undefined = this.#heads.get(id) ?? -1; after !== undefined;) {
        const page = await server.request('GET', `/sessions/${id}/events?after=${after}&limit=500`)
        demand(page.status === 200, `session ${id} was answered with ${page.status}`)
        for (const event of page.body.events) this.#note(id, event)
        after = page.body.next
      }
    }
  }

  #note(session: string, { seq, type, data }: { seq: number; type: string; data: any }): void {
    const expected = (this.#heads.get(session) ?? -1) + 1
    demand(seq === expected, `session ${session}: seq ${seq} where ${expected} was due`)
    this.#heads.set(session, seq)
    this.#events += 1
    if (type !== 'tool/call' && type !== 'tool/result') return
    const callId = type === 'tool/call' ? data.callId : data.message.source.callId
    const key = `${session} ${callId}`
    const known = this.#calls.get(key) ?? { callSeq: undefined, resultSeq: undefined, code: undefined }
    const field = type === 'tool/call' ? 'callSeq' : 'resultSeq'
    demand(known[field] === undefined, `${type} of ${key} stands twice`)
    const code = type === 'tool/result' ? data.error?.code : known.code
    this.#calls.set(key, { ...known, [field]: seq, code })
  }

  #checkAcked({ session, callId, callSeq, resultSeq, code }: Acked): void {
    const logged = this.#calls.get(`${session} ${callId}`)
    demand(logged?.resultSeq === resultSeq, `${callId} was answered at ${resultSeq}; the log has ${logged?.resultSeq}`)
    demand((logged?.callSeq ?? -1) === callSeq, `${callId} was called at ${callSeq}; the log has ${logged?.callSeq}`)
    demand(logged?.code === code, `${callId} was answered with ${code}; the log has ${logged?.code}`)
  }

  /** Only a call that waits for a person may be without a result. */
  async #checkUnanswered(server: ServerProcess): Promise<void> {
    for (const [key, { resultSeq }] of this.#calls) {
      if (resultSeq !== undefined) continue
      const [session, callId] = key.split(' ')
      const { body } = await server.request('GET', `/calls/${session}/${callId}`)
      demand(body.state === 'awaiting-approval', `${key} has no result and is ${body.state}`)
    }
  }

  /** No body ran twice; what succeeded ran; what is said not to have started did not. */
  #checkBodies(load: Load): void {
    const ran = new Set<string>()
    for (const callId of bodiesOf(this.#home)) {
      demand(!ran.has(callId), `the body of ${callId} ran twice`)
      ran.add(callId)
    }
    for (const { callId, isError, value } of load.acked) {
      if (isError || typeof value !== 'string' || !value.startsWith(`${callId} `)) continue
      demand(ran.has(callId), `${callId} succeeded and did not run`)
    }
    for (const [key, { code }] of this.#calls) {
      const callId = key.split(' ')[1] ?? ''
      if (code === 'TOOL_NOT_STARTED') demand(!ran.has(callId), `${callId} ran and is said not to have started`)
    }
  }

  async #checkSubscribers({ all, one, stream }: Subscribers): Promise<void> {
    await until(() => all.seen.length >= this.#events && stream.positions.length >= this.#events)
    demand(
      all.seen.every(({ position }, index) => position === index),
      'a subscriber missed an event or had one twice'
    )
    demand(
      stream.positions.every((position, index) => position === index),
      'a stream missed an event or had one twice'
    )
    const expected = all.seen.filter(({ session, type }) => session === 's-0' && type.startsWith('tool/'))
    await until(() => one.seen.length >= expected.length)
    const seqs = (seen: Subscriber['seen']): string => seen.map(({ seq }) => seq).join()
    demand(seqs(one.seen) === seqs(expected), 'the subscriber of one session missed an event or had one twice')
  }
}

/** The calls whose bodies ran, by the witness's own file. A line that the kill cut off is none. */
export function bodiesOf(home: string): string[] {
  try {
    return readFileSync(bodiesFile(home), 'utf8').split('\n').slice(0, -1)
  } catch {
    return []
  }
}

function demand(holds: boolean, otherwise: string): void {
  if (!holds) throw new Error(otherwise)
}
