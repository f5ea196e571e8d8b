import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { CallAnswer } from '../../server/invocations/answer.ts'
import type { CallReport } from '../../server/invocations/stored-calls.ts'
import type { RunContext } from '../../server/pipeline/execution.ts'
import type { ToolDefinition, UserMessage } from '../../server/tools/definition.ts'
import { type ServedApp, serveApp } from './served-app.ts'
import { until } from './until.ts'

/** An answer of the server: status, headers and the parsed body. */
export interface Answer<T = any> {
  status: number
  headers: Headers
  body: T
}

export interface LoggedEvent {
  type: string
  seq: number
  data: any
  sourceEventSeqs?: number[]
}

/** A context message of a plugin, told apart by its plugin's name. */
export const contextFrom = (plugin: string): UserMessage => ({
  id: `ctx-${plugin}`,
  role: 'user',
  content: [{ type: 'text', text: plugin }],
  source: { kind: 'plugin', plugin }
})

/**
 * The whole server over real sockets with the fixture tools of the conformance cases: `echo need boom gate xgate coop count meta`. Bodies
 * write `body:<callId>` into the trace; gates wait until the test releases their id.
 */
export class TestApp {
  readonly served: ServedApp
  readonly trace: string[] = []
  /** What the body of `boom` does. */
  boom: (exec: RunContext) => unknown = () => {
    throw new Error('exploded')
  }
  /** How often the body of `count` ran. */
  counted = 0
  readonly #gates = new Map<string, () => void>()
  readonly #released = new Set<string>()

  constructor(served: ServedApp) {
    this.served = served
    for (const tool of this.#tools()) served.app.tools.register(tool)
  }

  get app(): ServedApp['app'] {
    return this.served.app
  }

  async post<T = any>(path: string, json: unknown = {}, headers: Record<string, string> = {}): Promise<Answer<T>> {
    return answerOf(await this.served.call(path, { json, headers }))
  }

  async get<T = any>(path: string): Promise<Answer<T>> {
    return answerOf(await this.served.call(path))
  }

  /** One call, which must be answered with 200. */
  async invoke(body: Record<string, unknown>): Promise<CallAnswer> {
    const { status, body: answer } = await this.post<CallAnswer>('/invoke', body)
    if (status !== 200) throw new Error(`${status}: ${JSON.stringify(answer)}`)
    return answer
  }

  batch(calls: Record<string, unknown>[], more: Record<string, unknown> = {}): Promise<Answer> {
    return this.post('/invoke/batch', { calls, ...more })
  }

  report(callId: string, session = 'default', query = ''): Promise<Answer<CallReport>> {
    return this.get(`/calls/${session}/${encodeURIComponent(callId)}${query}`)
  }

  cancel(callId: string, session = 'default'): Promise<Answer<CallReport>> {
    return this.post(`/calls/${session}/${encodeURIComponent(callId)}/cancel`)
  }

  async events(session = 'default'): Promise<LoggedEvent[]> {
    const events: LoggedEvent[] = []
    for (let after: number | undefined = -1; after !== undefined;) {
      const page: Answer = await this.get(`/sessions/${session}/events?after=${after}&limit=500`)
      if (page.status !== 200) throw new Error(`${page.status}: ${JSON.stringify(page.body)}`)
      events.push(...page.body.events)
      after = page.body.next
    }
    return events
  }

  /** The events in short: `tool/call c1`, `step/start 1/2`. */
  async log(session = 'default'): Promise<string[]> {
    return (await this.events(session)).map(brief)
  }

  entered(id: string): Promise<void> {
    return until(() => this.#gates.has(id))
  }

  release(...ids: string[]): void {
    for (const id of ids) {
      this.#released.add(id)
      this.#gates.get(id)?.()
    }
  }

  /** Resolves once the state of a live call is this one. */
  state(callId: string, state: string, session = 'default'): Promise<void> {
    return until(() => this.app.callEngine.calls.find(session, callId)?.state === state)
  }

  #tools(): ToolDefinition[] {
    const output = { schema: { type: 'string' } as const, render: (_args: unknown, value: string) => text(value) }
    const pass = async (id: string, exec: RunContext): Promise<string> => {
      this.trace.push(`body:${exec.callId}`)
      await new Promise<void>((resolve) => {
        this.#gates.set(id, resolve)
        if (this.#released.has(id)) resolve()
      })
      this.trace.push(`end:${exec.callId}`)
      return `done-${id}`
    }
    const id = { type: 'string', required: true } as const
    return [
      defineTool({
        name: 'echo',
        description: 'Returns its text.',
        parameters: { text: { type: 'string' } },
        output,
        isConcurrencySafe: () => true,
        execute: ({ text }, exec) => (this.trace.push(`body:${exec.callId}`), text ?? '')
      }),
      defineTool({
        name: 'need',
        description: 'Needs a path.',
        parameters: { path: { type: 'string', required: true } },
        output,
        execute: ({ path }) => path
      }),
      {
        name: 'boom',
        description: 'Does what the test says.',
        parameters: { type: 'object' },
        output: { schema: {}, render: (_args, value) => text(JSON.stringify(value)) },
        execute: (_args, exec) => (this.trace.push(`body:${exec.callId}`), this.boom(exec))
      },
      defineTool({
        name: 'gate',
        description: 'Waits until the test releases its id; may overlap.',
        parameters: { id },
        output,
        isConcurrencySafe: () => true,
        execute: ({ id }, exec) => pass(id, exec)
      }),
      defineTool({
        name: 'xgate',
        description: 'Waits until the test releases its id; exclusive.',
        parameters: { id },
        output,
        execute: ({ id }, exec) => pass(id, exec)
      }),
      defineTool({
        name: 'coop',
        description: 'Stops when its signal aborts.',
        parameters: {},
        output,
        isConcurrencySafe: () => true,
        execute: async (_args, exec) => {
          this.trace.push(`body:${exec.callId}`)
          if (!exec.signal.aborted) {
            await new Promise((resolve) => exec.signal.addEventListener('abort', resolve, { once: true }))
          }
          return 'stopped'
        }
      }),
      defineTool({
        name: 'count',
        description: 'Counts its runs.',
        parameters: { id: { type: 'string' } },
        output,
        isConcurrencySafe: () => true,
        execute: async ({ id }, exec) => {
          this.counted += 1
          return id === undefined ? String(this.counted) : pass(id, exec)
        }
      }),
      defineTool({
        name: 'meta',
        description: 'Has metadata.',
        parameters: { v: { type: 'string', required: true } },
        output: { ...output, presentationMeta: (_args, value) => ({ projected: value }) },
        isConcurrencySafe: () => true,
        execute: ({ v }) => v
      })
    ]
  }
}

export const startApp = async (
  settings: Record<string, string> = {},
  options: { isDurable?: boolean } = {}
): Promise<TestApp> => new TestApp(await serveApp(settings, options))

async function answerOf<T>(response: Response): Promise<Answer<T>> {
  const body = await response.text()
  return { status: response.status, headers: response.headers, body: (body === '' ? null : JSON.parse(body)) as T }
}

export function brief({ type, data }: LoggedEvent): string {
  if (type === 'tool/call') return `${type} ${data.callId}`
  if (type === 'tool/result') return `${type} ${data.message.source.callId}`
  if (type === 'user/message') return `${type} ${data.id}`
  if (type === 'turn/end') return `${type} ${data.turn} ${data.reason.kind}`
  return data.step === undefined ? `${type} ${data.turn}` : `${type} ${data.turn}/${data.step}`
}
