import type { Client } from './client.ts'
import { type SeenEvent, subscribe } from './subscription.ts'

/** A call that is about to be sent, watched and cancelled from the terminal. */
export interface CallProgress {
  /** Aborts when the call cannot be waited for any longer. */
  readonly gaveUp: AbortSignal
  readonly isCancelled: boolean
  end(): void
}

/**
 * Listens to what the body of a call prints, and turns Ctrl-C into a cancellation of it: the first cancels, so that its end is still seen,
 * the second drops the connection. Listening is by the way: where it fails, the call goes on without.
 */
export async function callProgress(
  client: Client,
  { scope, session, callId }: { scope: string | undefined; session: string | undefined; callId: string },
  { onChunk, onCancelling }: { onChunk: (chunk: string) => void; onCancelling: () => void }
): Promise<CallProgress> {
  // Its default depends on the token; the events of the call name it.
  let place = session
  const onEvent = ({ type, session: seenIn, ...event }: SeenEvent): void => {
    const data = (event.data ?? event) as { callId?: unknown; chunk?: unknown }
    if (data.callId !== callId) return
    place ??= seenIn
    if (type === 'tool/progress') onChunk(String(data.chunk))
  }
  const request = { scope, events: ['tool/progress', 'tool/call'] }
  const subscription = await subscribe(client, request, { onEvent }).catch(() => undefined)
  const giveUp = new AbortController()
  let isCancelled = false
  const interrupt = (): void => {
    const isSecond = isCancelled
    isCancelled = true
    if (isSecond || place === undefined) return giveUp.abort()
    onCancelling()
    const path = `/calls/${encodeURIComponent(place)}/${encodeURIComponent(callId)}/cancel`
    client.send(path, { method: 'POST' }).catch(() => giveUp.abort())
  }
  process.on('SIGINT', interrupt)
  return {
    gaveUp: giveUp.signal,
    get isCancelled() {
      return isCancelled
    },
    end: () => {
      process.off('SIGINT', interrupt)
      subscription?.close()
    }
  }
}
