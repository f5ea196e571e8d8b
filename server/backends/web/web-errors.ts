import { WebError } from './web.ts'

/** What went wrong on the way to a server or back, as a WebError. */
export function providerError(error: unknown): WebError {
  if (error instanceof WebError) return error
  // Node gathers the failures of several addresses; a refusal among them tells more than the others.
  if (error instanceof AggregateError) {
    const refusal = error.errors.find((inner) => inner instanceof WebError)
    if (refusal !== undefined) return refusal
  }
  const { message, code, errors } = error as { message?: string; code?: string; errors?: { message?: string }[] }
  const told = message || errors?.[0]?.message || code || 'unknown'
  return new WebError('WEB_PROVIDER_ERROR', `the request failed: ${told.slice(0, 500)}`, { cause: error })
}

/** One header of an answer; of several alike the first. */
export function headerOf(headers: Record<string, string | string[] | undefined>, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value[0] : value
}
