import type { EventId, EventStore, StreamId } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'

interface Kept {
  streamId: StreamId
  message: JSONRPCMessage
  bytes: number
}

/** What one kept message costs besides its text. */
const overheadBytes = 256

/** A response ends the stream of its request, as each stream carries one request. */
const isResponse = (message: JSONRPCMessage): boolean => 'result' in message || 'error' in message

/**
 * The last messages of one MCP session, for a client that lost a connection and comes again with `Last-Event-ID`. Bounded in memory: the
 * oldest make room, and a message that is larger than all of it is kept as an error that says so. What was run is in the log anyhow.
 */
export class RecentMessages implements EventStore {
  readonly #maxBytes: number
  readonly #kept = new Map<EventId, Kept>()
  #bytes = 0
  #last = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  // oxlint-disable-next-line typescript/require-await -- the interface is for stores that have to wait
  async storeEvent(streamId: StreamId, given: JSONRPCMessage): Promise<EventId> {
    this.#last += 1
    const id = String(this.#last)
    let message = given
    let bytes = JSON.stringify(message).length + overheadBytes
    if (bytes > this.#maxBytes) {
      message = tooLarge(message)
      bytes = JSON.stringify(message).length + overheadBytes
    }
    this.#kept.set(id, { streamId, message, bytes })
    this.#bytes += bytes
    for (const [oldest, { bytes }] of this.#kept) {
      if (this.#bytes <= this.#maxBytes || oldest === id) break
      this.#kept.delete(oldest)
      this.#bytes -= bytes
    }
    return id
  }

  /**
   * Whether an event is kept. Not in the way of the interface, with which the transport would refuse a client for as long as the server
   * has not noticed that its old connection is gone, which takes minutes where nobody has said so.
   */
  has(id: EventId): boolean {
    return this.#kept.has(id)
  }

  async replayEventsAfter(
    lastEventId: EventId,
    { send }: { send: (id: EventId, message: JSONRPCMessage) => Promise<void> }
  ): Promise<StreamId> {
    for (const [id, message] of this.#after(lastEventId)) await send(id, message)
    return this.#kept.get(lastEventId)?.streamId ?? ''
  }

  /**
   * What came after an event on a stream that has ended since: there is nothing to wait for, which the transport does not tell apart.
   * Undefined for a stream that goes on, and for an event that is not kept.
   */
  restOfEnded(lastEventId: EventId): [EventId, JSONRPCMessage][] | undefined {
    const seen = this.#kept.get(lastEventId)
    if (seen === undefined) return undefined
    const rest = this.#after(lastEventId)
    return isResponse(rest.at(-1)?.[1] ?? seen.message) ? rest : undefined
  }

  #after(lastEventId: EventId): [EventId, JSONRPCMessage][] {
    const stream = this.#kept.get(lastEventId)?.streamId
    const from = Number(lastEventId)
    return [...this.#kept]
      .filter(([id, { streamId }]) => streamId === stream && Number(id) > from)
      .map(([id, { message }]) => [id, message])
  }
}

function tooLarge(message: JSONRPCMessage): JSONRPCMessage {
  if (!('id' in message) || message.id === undefined || !isResponse(message)) {
    return {
      jsonrpc: '2.0',
      method: 'notifications/message',
      params: { level: 'warning', data: 'A message was too large to be sent again.' }
    }
  }
  const { callId } = ('result' in message ? (message.result['_meta'] ?? {}) : {}) as { callId?: unknown }
  return {
    jsonrpc: '2.0',
    id: message.id,
    error: {
      code: -32_000,
      message: 'The answer was too large to be kept for a second delivery; GET /calls has it.',
      ...(typeof callId === 'string' && { data: { callId } })
    }
  }
}
