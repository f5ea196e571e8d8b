import type { ErrorCode } from '../errors.ts'

/** How a subscription's frames are written; those of api.md §5 for both transports. */
export interface FrameFormat {
  subscribed(head: number, logId: string): string
  /** `text` is the event's JSON; `cursor` the `after` to resume from, absent for a live event. */
  event(text: string, cursor: number | undefined): string
  gap(dropped: number): string
  error(code: ErrorCode, details: Record<string, string | number>): string
}

// Subscriptions under the same id are given the same event one after the other, and share the text.
let last = { text: '', start: '', frame: '' }

/** Text frames of a WebSocket, one JSON object each, that carry the subscription's id. */
export function webSocketFrames(id: string): FrameFormat {
  const ending = JSON.stringify({ id }).slice(1)
  const start = `{"type":"event",${ending.slice(0, -1)},"event":`
  return {
    subscribed: (head, logId) => JSON.stringify({ type: 'subscribed', id, head, logId }),
    event: (text) => {
      if (text !== last.text || start !== last.start) last = { text, start, frame: `${start}${text}}` }
      return last.frame
    },
    gap: (dropped) => JSON.stringify({ type: 'gap', id, dropped }),
    error: (code, details) => JSON.stringify({ type: 'error', id, code, ...details })
  }
}

/** Server-Sent Events; `id` is what a client sends back as `Last-Event-ID`. */
export const eventStreamFrames: FrameFormat = {
  subscribed: (head, logId) => `event: subscribed\ndata: ${JSON.stringify({ head, logId })}\n\n`,
  event: (text, cursor) => `${cursor === undefined ? '' : `id: ${cursor}\n`}data: ${text}\n\n`,
  gap: (dropped) => `event: gap\ndata: ${JSON.stringify({ dropped })}\n\n`,
  error: (code, details) => `event: error\ndata: ${JSON.stringify({ code, ...details })}\n\n`
}
