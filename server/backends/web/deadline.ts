/**
 * Runs work that ends by the time limit or the caller's abort, whichever is first, and with that one's error: by its own means, as
 * the signal it gets tells it, or else by being left behind.
 */
export async function withDeadline<Result>(
  limit: { timeoutMs: number; timedOut: () => Error; signal: AbortSignal; aborted: () => Error },
  work: (signal: AbortSignal) => Promise<Result>
): Promise<Result> {
  const controller = new AbortController()
  if (limit.signal.aborted) throw limit.aborted()
  const stop = (error: Error): void => controller.abort(error)
  const onAbort = (): void => stop(limit.aborted())
  const timer = setTimeout(() => stop(limit.timedOut()), limit.timeoutMs)
  limit.signal.addEventListener('abort', onAbort, { once: true })
  try {
    const stopped = new Promise<never>((_resolve, reject) => {
      controller.signal.addEventListener('abort', () => reject(controller.signal.reason as Error), { once: true })
    })
    return await Promise.race([work(controller.signal), stopped])
  } catch (error) {
    // Whatever the work says of its own end, the cause came first.
    throw controller.signal.aborted ? controller.signal.reason : error
  } finally {
    clearTimeout(timer)
    limit.signal.removeEventListener('abort', onAbort)
  }
}
