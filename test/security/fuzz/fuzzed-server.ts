import { Agent, request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { errorTable } from '../../../server/errors.ts'
import { RunningServer } from '../../helpers/running-server.ts'
import { initialize } from '../../helpers/mcp-client.ts'
import type { Operation } from './operations.ts'
import type { FuzzRequest } from './requests.ts'

export interface FuzzAnswer {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
}

/** Of what is not answered by then it is said that it hangs. */
const patienceMs = 30_000

/** A real server in a process of its own in which nothing that is fuzzed can become a command, a program or a request to the outside. */
export class FuzzedServer {
  readonly server: RunningServer
  readonly port: number
  readonly live: Record<string, string[]> = {}
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 16 })
  #turn = 0

  private constructor(server: RunningServer) {
    this.server = server
    this.port = Number(new URL(server.url).port)
  }

  static async start(home: string): Promise<FuzzedServer> {
    const settings = {
      plugins: [join(import.meta.dirname, 'plugin.js')],
      log: { level: 'error' },
      // Without a program to confine with there is no bash and no terminal; without the others there is nothing else to run.
      shell: { executor: 'bash-sandbox' },
      sandbox: { required: true },
      commandTools: { enabled: false },
      codeRuntime: { backend: 'off' },
      mcp: { registerOverHttp: false },
      httpTools: { allowHosts: ['fuzz.invalid'], timeoutMs: 500 },
      // Small, so that what is kept is soon all that may be kept, and nobody is waited for long.
      scopes: { max: 40, maxDepth: 6, maxRestrictions: 5 },
      tools: { max: 40, maxPerScope: 20 },
      approvals: { expiryMs: 500 },
      calls: { queueTimeoutMs: 500 },
      providers: { graceMs: 0 },
      mcpEndpoint: { maxSessions: 20 },
      ws: { framesPerSecond: 1_000_000 },
      drain: { drainMs: 2_000 }
    }
    return new FuzzedServer(await RunningServer.start(home, settings, { env: { PATH: '/nonexistent' } }))
  }

  /** Puts back what requests are about, as other requests took it away. */
  async tend(): Promise<void> {
    const ask = async (path: string, json?: unknown, method?: string): Promise<any> =>
      (await this.server.request(path, json, method === undefined ? {} : { method })).body
    for (const [id, parent] of [
      ['f1', 'global'],
      ['f2', 'global'],
      ['f1.x', 'f1']
    ] as const) {
      await ask(`/scopes/${id}`, { parent }, 'PUT')
      await ask(`/scopes/${id}/limits`, {}, 'PUT')
    }
    await ask('/sessions/s1', {}, 'PUT')
    const mask = await ask('/scopes/f1/restrictions', { deny: ['todo_write'] })
    const headers = { prefer: 'respond-async' }
    await this.send({
      method: 'POST',
      path: '/invoke',
      headers: { ...headers, 'content-type': 'application/json' },
      body: '{"name":"fuzz_asked"}'
    })
    for (const role of ['operator', 'observer']) await ask('/tokens', { role, scope: 'f1', ttlMs: 60_000 })
    const begun = await this.send({
      method: 'POST',
      path: '/scopes/f1/mcp',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify(initialize)
    })
    this.live['mask'] = [mask.id ?? 'none']
    this.live['mcp'] = [String(begun.headers['mcp-session-id'] ?? 'none')]
    this.live['approval'] = (await ask('/approvals')).approvals.map(({ id }: { id: string }) => id)
    this.live['token'] = (await ask('/tokens')).tokens.map(({ id }: { id: string }) => id).slice(-5)
  }

  /** Puts in what names between at signs stand for. */
  fill(text: string): string {
    return text.replaceAll(/@(\w+)@/g, (_match, kind: string) => {
      const known = Object.hasOwn(this.live, kind) ? (this.live[kind] ?? []) : []
      return known[(this.#turn += 1) % known.length] ?? 'none'
    })
  }

  /** Rejects when the server says nothing; a stream is left soon after its beginning. */
  send({ method, path, headers, body }: FuzzRequest): Promise<FuzzAnswer> {
    const bytes = body === undefined ? undefined : Buffer.from(this.fill(body))
    const given = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, this.fill(value)]))
    return new Promise((resolve, reject) => {
      const sent = httpRequest({
        host: '127.0.0.1',
        port: this.port,
        agent: this.#agent,
        method,
        path: this.fill(path),
        headers: {
          authorization: 'Bearer a-token-of-the-test',
          ...given,
          ...(bytes && { 'content-length': bytes.length })
        }
      })
      const timer = setTimeout(() => sent.destroy(new Error(`no answer within ${patienceMs} ms`)), patienceMs)
      sent.on('response', (answer) => {
        const chunks: Buffer[] = []
        const isStream = String(answer.headers['content-type']).startsWith('text/event-stream')
        const leaving = isStream ? setTimeout(() => sent.destroy(), 50) : undefined
        answer.on('data', (chunk: Buffer) => chunks.push(chunk))
        answer.on('error', () => undefined)
        answer.on('close', () => {
          clearTimeout(timer)
          clearTimeout(leaving)
          if (!answer.complete && !isStream) return reject(new Error('the answer broke off'))
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text: Buffer.concat(chunks).toString() })
        })
      })
      sent.on('error', (error) => {
        clearTimeout(timer)
        reject(error)
      })
      sent.end(bytes)
    })
  }

  /** What a collection leaves of the memory, and what the process holds. */
  async memory(): Promise<{ bytes: number; resources: number; polluted: string[]; warnings: string[] }> {
    const { body } = await this.server.request('/invoke', { name: 'fuzz_memory', session: 'memory' })
    if (body.isError !== false) throw new Error(JSON.stringify(body))
    return body.value
  }
}

/** Throws what is wrong with an answer: it must be one that the API description has for the operation. */
export function check({ id, path, answers }: Operation, { status, headers, text }: FuzzAnswer): void {
  const wrong = (what: string): Error => new Error(`${id} was answered with ${status} ${text.slice(0, 500)}: ${what}`)
  if (status >= 500 && status !== 503) throw wrong('no request may be answered so')
  if (!answers.has(status)) throw wrong(`only ${[...answers.keys()].join()} are described`)
  const isJson = String(headers['content-type']).startsWith('application/json')
  const body: any = isJson && text !== '' ? JSON.parse(text) : undefined
  if (status >= 400) {
    if (path.endsWith('/mcp') && body?.jsonrpc === '2.0' && typeof body.error?.code === 'number') return
    if (body === undefined) throw wrong('it is not of the form of errors')
    if (!path.startsWith('/health')) checkError(body, status, wrong)
    if (status === 503 && headers['retry-after'] === undefined && !path.startsWith('/health'))
      throw wrong('Retry-After is missing')
  }
  const validate = answers.get(status)
  if (body !== undefined && validate !== undefined && !validate(body)) {
    throw wrong(
      `${validate.errors?.[0]?.instancePath} ${validate.errors?.[0]?.message} ${JSON.stringify(validate.errors?.[0]?.params)}`
    )
  }
}

/** The one shape of errors, with a code of the table that has this status (api.md §8). */
export function checkError(body: any, status: number, wrong: (what: string) => Error): void {
  const { error, requestId, ...more } = body ?? {}
  const code =
    typeof error?.code === 'string' && Object.hasOwn(errorTable, error.code)
      ? (error.code as keyof typeof errorTable)
      : undefined
  if (code === undefined || typeof error.message !== 'string' || Object.keys(more).length > 0)
    throw wrong('it is not of the form of errors')
  if (requestId !== null && typeof requestId !== 'string') throw wrong('it has no requestId')
  if (requestId !== null && errorTable[code].status !== status) throw wrong(`${code} has another status`)
}
