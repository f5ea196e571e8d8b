import type { FastifyInstance, FastifyReply } from 'fastify'

/** Ends a long poll: after its time, when the client is gone, within a second of the end of its token, or when the server goes down. */
export function pollEnd(
  { shutdown, tokens }: FastifyInstance,
  { raw, request: { principal } }: FastifyReply,
  waitMs: number
): { signal: AbortSignal; end: () => void } {
  const controller = new AbortController()
  const abort = (): void => controller.abort()
  const timer = setTimeout(abort, waitMs)
  const watch = setInterval(() => {
    if (!tokens.isLive(principal)) abort()
  }, 1_000)
  raw.once('close', abort)
  shutdown.begun.addEventListener('abort', abort, { once: true })
  if (shutdown.isDraining) abort()
  return {
    signal: controller.signal,
    end: () => {
      clearTimeout(timer)
      clearInterval(watch)
      raw.off('close', abort)
      shutdown.begun.removeEventListener('abort', abort)
    }
  }
}
