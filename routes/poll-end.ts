import type { FastifyInstance, FastifyReply } from 'fastify'

/** Ends a long poll: after its time, when the client is gone, or when the server goes down. */
export function pollEnd(
  { shutdown }: FastifyInstance,
  { raw }: FastifyReply,
  waitMs: number
): { signal: AbortSignal; end: () => void } {
  const controller = new AbortController()
  const abort = (): void => controller.abort()
  const timer = setTimeout(abort, waitMs)
  raw.once('close', abort)
  shutdown.begun.addEventListener('abort', abort, { once: true })
  if (shutdown.isDraining) abort()
  return {
    signal: controller.signal,
    end: () => {
      clearTimeout(timer)
      raw.off('close', abort)
      shutdown.begun.removeEventListener('abort', abort)
    }
  }
}
