import { randomUUID } from 'node:crypto'
import { stringifyJson } from '../json/serialize.ts'
import { ToolArgsError } from '../tools/args-error.ts'
import type { WireAnswer, WireCall } from './executor.ts'
import { AbortError } from '../errors.ts'
import { ProviderError } from './provider-errors.ts'

/** A provider's socket, as the executor sees it. */
export interface ProviderLink {
  /** Fires when the socket is gone. */
  readonly closed: AbortSignal
  /** Whether more is waiting to be sent than is good; then `whenWritable` tells when to go on. */
  readonly isBackedUp: boolean
  whenWritable(): Promise<void>
  sendText(text: string): void
}

export interface ProviderLimits {
  /** How long calls wait for a provider that lost its socket, in milliseconds. */
  readonly graceMs: number
  /** Calls that a provider may have unanswered. */
  readonly maxPendingCalls: number
  /** Largest `call` frame that is sent, in bytes. */
  readonly maxFrameBytes: number
}

interface PendingCall {
  readonly dispatchId: string
  readonly call: WireCall
  /** Whether some socket was given it: from then on nobody knows what it did. */
  wasSent: boolean
  /** Counts the times it was to be sent: of those that wait for a socket to take more, only the last is. */
  turn: number
  readonly resolve: (answer: WireAnswer) => void
  readonly reject: (error: Error) => void
}

/**
 * A client that runs tools over its socket (api.md §5): one id in one scope, whichever of its sockets is the latest. Calls that are under
 * way when the socket goes wait for the next one until the grace is over; each is answered once.
 */
export class Provider {
  readonly id: string
  /** The id of the scope that it registers tools in. */
  readonly scope: string
  /** The id of the token whose provider this is. */
  owner: string
  readonly #limits: ProviderLimits
  readonly #pending = new Map<string, PendingCall>()
  #link: ProviderLink | undefined
  #grace: NodeJS.Timeout | undefined

  constructor(identity: { id: string; scope: string; owner: string }, limits: ProviderLimits) {
    this.id = identity.id
    this.scope = identity.scope
    this.owner = identity.owner
    this.#limits = limits
  }

  /** Whether it has a socket, so that calls can be made. */
  get isAvailable(): boolean {
    return this.#link !== undefined
  }

  /** Whether this is its socket. */
  isOn(link: ProviderLink): boolean {
    return link === this.#link
  }

  /** The calls that it owes an answer, oldest first, by their `dispatchId`. */
  get pending(): string[] {
    return [...this.#pending.keys()]
  }

  /**
   * Sends a call and gives its answer. Rejects with `ToolArgsError` for arguments that fit in no frame, with `ProviderError`,
   * `AbortError`, or with what the provider says went wrong.
   */
  run(call: WireCall): Promise<WireAnswer> {
    const link = this.#link
    if (call.signal.aborted) return Promise.reject(new AbortError({ effect: 'none' }))
    if (link === undefined) return Promise.reject(this.#unavailable('no'))
    if (this.#pending.size >= this.#limits.maxPendingCalls) {
      const message = `provider "${this.id}" has ${this.#limits.maxPendingCalls} calls to answer already`
      return Promise.reject(new ProviderError('OVERLOADED', message, { ran: 'no' }))
    }
    return new Promise<WireAnswer>((resolve, reject) => {
      const dispatchId = randomUUID()
      const settle = (): void => {
        this.#pending.delete(dispatchId)
        if (this.#pending.size === 0) clearTimeout(this.#grace)
        call.signal.removeEventListener('abort', abort)
      }
      const pending: PendingCall = {
        dispatchId,
        call,
        wasSent: false,
        turn: 0,
        resolve: (answer) => {
          settle()
          resolve(answer)
        },
        reject: (error) => {
          settle()
          reject(error)
        }
      }
      const abort = (): void => {
        if (pending.wasSent) this.#tell(this.#link, { type: 'call/cancel', dispatchId })
        pending.reject(new AbortError(pending.wasSent ? {} : { effect: 'none' }))
      }
      call.signal.addEventListener('abort', abort, { once: true })
      this.#pending.set(dispatchId, pending)
      this.#deliver(pending, link)
    })
  }

  /** Makes this its socket. The one before hears of it, and the calls under way are sent again here. */
  attach(link: ProviderLink): void {
    if (link === this.#link || link.closed.aborted) return
    clearTimeout(this.#grace)
    const former = this.#link
    this.#link = link
    this.#tell(former, this.#ended('replaced'))
    for (const pending of this.#pending.values()) this.#deliver(pending, link)
  }

  /** The socket is gone, if it was the latest. Calls under way fail after the grace, or at once when nobody may come back. */
  detach(link: ProviderLink, { mayReturn }: { mayReturn: boolean }): void {
    if (link !== this.#link) return
    this.#link = undefined
    if (!mayReturn) this.fail()
    else if (this.#pending.size > 0) this.#grace = setTimeout(() => this.fail(), this.#limits.graceMs)
  }

  /** Gives a call's answer, or what went wrong in it. False when the socket has no such call to answer, or not any more. */
  answer(link: ProviderLink, dispatchId: string, answer: WireAnswer | Error): boolean {
    const pending = this.#callOf(link, dispatchId)
    if (pending === undefined) return false
    if (answer instanceof Error) pending.reject(answer)
    else pending.resolve(answer)
    return true
  }

  /** Reports partial output. False as for `answer`. */
  progress(link: ProviderLink, dispatchId: string, chunk: string): boolean {
    const pending = this.#callOf(link, dispatchId)
    pending?.call.progress(chunk)
    return pending !== undefined
  }

  /** Ends all calls under way with `PROVIDER_UNAVAILABLE`. */
  fail(): void {
    clearTimeout(this.#grace)
    for (const pending of [...this.#pending.values()])
      pending.reject(this.#unavailable(pending.wasSent ? 'maybe' : 'no'))
  }

  /** It is no more: its socket, if any, hears that its scope was disposed. */
  end(): void {
    const link = this.#link
    this.#link = undefined
    this.#tell(link, this.#ended('disposed'))
    this.fail()
  }

  /** Only the latest socket answers: what an earlier one runs on was sent again. */
  #callOf(link: ProviderLink, dispatchId: string): PendingCall | undefined {
    return link === this.#link ? this.#pending.get(dispatchId) : undefined
  }

  #deliver(pending: PendingCall, link: ProviderLink): void {
    this.#send(pending, link).catch((error: unknown) => pending.reject(error as Error))
  }

  async #send(pending: PendingCall, link: ProviderLink): Promise<void> {
    const { dispatchId, call } = pending
    const turn = (pending.turn += 1)
    // One that waited as long may have been quicker.
    while (link.isBackedUp && !link.closed.aborted) await link.whenWritable()
    if (turn !== pending.turn || this.#callOf(link, dispatchId) !== pending) return
    const { wasSent } = pending
    const text = stringifyJson({
      type: 'call',
      dispatchId,
      providerId: this.id,
      callId: call.callId,
      name: call.name,
      arguments: call.arguments,
      scope: call.scope,
      ...(call.session === undefined ? {} : { session: call.session }),
      ...(call.deadlineAt === undefined ? {} : { deadlineAt: call.deadlineAt }),
      ...(wasSent ? { redelivered: true } : {})
    })
    if (!wasSent && Buffer.byteLength(text) > this.#limits.maxFrameBytes) {
      throw new ToolArgsError([`"arguments" do not fit in a frame of ${this.#limits.maxFrameBytes} bytes`])
    }
    pending.wasSent = true
    link.sendText(text)
  }

  #tell(link: ProviderLink | undefined, frame: { type: string; [key: string]: string }): void {
    link?.sendText(stringifyJson(frame))
  }

  #ended(reason: 'replaced' | 'disposed') {
    return { type: 'provider/ended', providerId: this.id, scope: this.scope, reason }
  }

  #unavailable(ran: 'no' | 'maybe'): ProviderError {
    return new ProviderError('PROVIDER_UNAVAILABLE', `provider "${this.id}" is not connected`, { ran })
  }
}
