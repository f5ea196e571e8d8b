import { Agent, fetch, type Response, WebSocket } from 'undici'
import { type ConnectionValues, findServer } from './connection.ts'
import { exitCodeOf } from './exit-codes.ts'
import { inOneLine } from './output.ts'

/** The server refused: its code, its message and the id under which its log tells more. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
  readonly code: string
  readonly status: number
  readonly exitCode: number

  constructor(
    code: string,
    message: string,
    status: number,
    { requestId, hint }: { requestId?: string; hint?: string } = {}
  ) {
    const more = [hint, requestId === undefined ? undefined : `request ${requestId}`].filter(
      (each) => each !== undefined
    )
    super(inOneLine(`${code}: ${message}${more.length === 0 ? '' : ` (${more.join('; ')})`}`))
    this.code = code
    this.status = status
    this.exitCode = exitCodeOf(status)
  }
}

/** No answer came; the process exits with 69 (EX_UNAVAILABLE). */
export class UnreachableError extends Error {
  override readonly name = 'UnreachableError'
  readonly exitCode = 69
}

/** What answered is no Toolwright server; the process exits with 70 (EX_SOFTWARE). */
class StrangerError extends Error {
  override readonly name = 'StrangerError'
  readonly exitCode = 70
}

interface RequestOptions {
  method?: string
  /** JSON text, or a value to be made one. */
  body?: string | object
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** A client of one server with one token. `close` it, or its connections keep the process alive. */
export class Client {
  readonly url: string
  readonly #authorization: string
  // A call may take hours before it is answered; that is for the server and its limits to say.
  readonly #agent = new Agent({ headersTimeout: 0, bodyTimeout: 0 })

  constructor({ url, token }: { url: string; token: string }) {
    this.url = url
    this.#authorization = `Bearer ${token}`
  }

  /** Sends a request; whatever is no success throws a `RefusedError`, `UnreachableError` or `StrangerError`. */
  async send(path: string, { method, body, headers, signal }: RequestOptions = {}): Promise<Response> {
    const response = await this.#reach(() =>
      fetch(`${this.url}${path}`, {
        method: method ?? (body === undefined ? 'GET' : 'POST'),
        headers: {
          authorization: this.#authorization,
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers
        },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        ...(signal && { signal }),
        // Wherever it leads, the token is not for there.
        redirect: 'manual',
        dispatcher: this.#agent
      })
    )
    if (response.ok) return response
    throw await this.#refusalOf(response)
  }

  /** The text of a JSON answer, and what it says, whose shape is the route's to tell. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows the route
  async ask<T>(
    path: string,
    options?: RequestOptions
  ): Promise<{ value: T; text: string; headers: Response['headers'] }> {
    const response = await this.send(path, options)
    const text = await this.#reach(() => response.text())
    return { value: this.#parse(text, response.status) as T, text, headers: response.headers }
  }

  /** All elements of a list, page by page. */
  async *list<T>(path: string, key: string, query: Record<string, string | undefined> = {}): AsyncGenerator<T> {
    for (let after: string | undefined = query.after; ;) {
      const given = Object.entries({ ...query, after }).filter(([, value]) => value !== undefined)
      const { value } = await this.ask<{ next?: string | number; [key: string]: unknown }>(
        withQuery(path, Object.fromEntries(given))
      )
      yield* (value[key] ?? []) as T[]
      if (value.next === undefined) return
      after = String(value.next)
    }
  }

  /** A socket on the stream of events, opening. */
  openSocket(): WebSocket {
    return new WebSocket(`${this.url.replace(/^http/, 'ws')}/events`, {
      protocols: ['toolwright.v1'],
      headers: { authorization: this.#authorization },
      dispatcher: this.#agent
    })
  }

  /** Drops whatever is still open. */
  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  async #reach<T>(request: () => Promise<T>): Promise<T> {
    try {
      return await request()
    } catch (error) {
      if ((error as Error).name === 'AbortError') throw error
      const { cause } = error as { cause?: { code?: string; message?: string } }
      const code = cause?.code
      // A server that has answered a body too large closes the connection, often before the answer is read here.
      const hint = code === 'EPIPE' ? '; what was sent may be more than it takes (http.bodyLimitBytes)' : ''
      const reason = `${code ?? cause?.message ?? (error as Error).message}${hint}`
      throw new UnreachableError(inOneLine(`cannot reach ${this.url}: ${reason}`), { cause: error })
    }
  }

  async #refusalOf(response: Response): Promise<Error> {
    const text = await this.#reach(() => response.text())
    const { error, requestId } = (this.#parse(text, response.status) ?? {}) as {
      error?: { code?: unknown; message?: unknown; details?: unknown }
      requestId?: string
    }
    if (typeof error?.code !== 'string') return this.#stranger(response.status)
    const details = error.details === undefined ? '' : ` ${JSON.stringify(error.details)}`
    const retryAfter = response.headers.get('retry-after')
    return new RefusedError(error.code, `${String(error.message)}${details}`, response.status, {
      ...(requestId !== undefined && { requestId }),
      ...(retryAfter !== null && { hint: `try again in ${retryAfter} s` })
    })
  }

  #parse(text: string, status: number): unknown {
    if (text === '') return undefined
    try {
      return JSON.parse(text)
    } catch {
      throw this.#stranger(status)
    }
  }

  #stranger(status: number): Error {
    // A proxy says so of a server that is being started again, or that takes longer than the proxy waits.
    if (exitCodeOf(status) === 69) return new UnreachableError(`cannot reach ${this.url}: a proxy answers ${status}`)
    return new StrangerError(`what answers at ${this.url} is no Toolwright server (status ${status})`)
  }
}

/** Runs `use` with a client for the server that the options and the environment name, and closes it after. */
export async function withClient<T>(
  values: ConnectionValues,
  env: NodeJS.ProcessEnv,
  use: (client: Client) => Promise<T>
): Promise<T> {
  const client = new Client(findServer(values, env))
  try {
    return await use(client)
  } finally {
    await client.close()
  }
}

/** A path with a query of those that are given. */
export function withQuery(path: string, query: Record<string, string | undefined>): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given).toString()}`
}
