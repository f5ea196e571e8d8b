import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { FrameConnection } from '../plugins/engine/frames.ts'
import { RequestError } from '../server/errors.ts'
import { invokeRequest } from './call-request.ts'
import { reachScope, reachSession } from './reach.ts'
import { CallId, InvokeBody } from './schemas/calls.ts'
import { ClientId, SessionId } from './schemas/ids.ts'

const InvokeFrame = Type.Object(
  { type: Type.Literal('invoke'), id: ClientId, ...InvokeBody.properties },
  { additionalProperties: false }
)

const CancelFrame = Type.Object(
  { type: Type.Literal('cancel'), id: Type.Optional(ClientId), session: SessionId, callId: CallId },
  { additionalProperties: false }
)

/**
 * Calls over a socket (api.md §5): `invoke` is `POST /invoke`, answered by a `result` frame with the same members; `cancel` is
 * `POST /calls/…/cancel`, answered by a `call/state` frame.
 */
export async function callFrames(app: FastifyInstance): Promise<void> {
  const { maxCalls } = app.connections.limits
  app.frames.add({
    types: {
      invoke: { schema: InvokeFrame, action: 'calls:invoke', startsWork: true, dataPaths: ['arguments'] },
      cancel: { schema: CancelFrame, action: 'calls:cancel' }
    },
    open: (connection) => {
      const calls = new SocketCalls(app, connection, maxCalls)
      return {
        invoke: (frame, text) => calls.invoke(frame, text),
        cancel: async ({ id, session: sessionId, callId }) => {
          await calls.underWay(callId)
          const session = await reachSession(app, connection.principal, sessionId)
          const report = await app.invocations.cancel(session, callId)
          await connection.sendInTurn({ type: 'call/state', ...(id === undefined ? {} : { id }), ...report })
        }
      }
    }
  })
}

interface OutstandingCall {
  readonly callId: string | undefined
  /** Resolves when the engine knows of the call, or it was refused. */
  placed: Promise<unknown>
  leave: () => void
}

/** The calls of one socket that it has no answer of yet. */
class SocketCalls {
  readonly #app: FastifyInstance
  readonly #connection: FrameConnection
  readonly #max: number
  readonly #outstanding = new Set<OutstandingCall>()

  constructor(app: FastifyInstance, connection: FrameConnection, max: number) {
    this.#app = app
    this.#connection = connection
    this.#max = max
    connection.closed.addEventListener('abort', () => [...this.#outstanding].forEach((call) => call.leave()), {
      once: true
    })
  }

  async invoke({ id, type: _type, ...body }: Static<typeof InvokeFrame>, text: string): Promise<void> {
    if (this.#outstanding.size >= this.#max) {
      const details = { limit: 'ws.maxCalls', value: this.#max }
      throw new RequestError('RATE_LIMITED', 'Too many calls of this socket are unanswered.', { details })
    }
    const call: OutstandingCall = { callId: body.callId, placed: Promise.resolve(), leave: () => undefined }
    this.#outstanding.add(call)
    try {
      const placed = this.#place(call, body, text)
      call.placed = placed
      const { answer } = await placed
      // The place of a call is free only when its answer is on its way: or a socket that does not read could have any number of them.
      await this.#connection.sendInTurn({ type: 'result', id, ...(await answer) })
    } finally {
      this.#outstanding.delete(call)
    }
  }

  /** A frame that follows an `invoke` on the same socket finds its call, as frames of one socket are in order. */
  async underWay(callId: string): Promise<void> {
    const same = [...this.#outstanding].filter((call) => call.callId === callId)
    await Promise.allSettled(same.map(({ placed }) => placed))
  }

  async #place(call: OutstandingCall, body: Static<typeof InvokeBody>, text: string) {
    const { sessions, invocations } = this.#app
    const scope = reachScope(this.#app, this.#connection.principal, body.scope)
    const session = await sessions.open(scope, body.session)
    const goesOn = (body.onDisconnect ?? (body.callId === undefined ? 'abort' : 'continue')) === 'continue'
    const caller = {
      abortsWhenLeft: !goesOn,
      onLeft: (listener: () => void) => {
        call.leave = listener
        if (this.#connection.closed.aborted) listener()
      }
    }
    // In an object, as a promise that is returned from here would be awaited by who waits for the place.
    const by = this.#connection.principal
    return { answer: invocations.invoke({ ...invokeRequest(session, body, text), caller, by }) }
  }
}
