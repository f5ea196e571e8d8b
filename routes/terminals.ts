import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { Principal } from '../server/auth/principal.ts'
import { type OperatedTerminal, TerminalError } from '../server/backends/terminals/terminals.ts'
import { RequestError } from '../server/errors.ts'
import { Session } from '../server/sessions/session.ts'
import { pollEnd } from './poll-end.ts'
import { reachScope } from './reach.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { pageQuery, ScopeId, SessionId } from './schemas/ids.ts'
import { Cursor } from './schemas/jobs.ts'
import { Terminal, TerminalId, TerminalOutput, TerminalSignal } from './schemas/terminals.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const params = Type.Object({ id: TerminalId })
/** Bytes of one read of output, and of one input. */
const maxOutputBytes = 1024 * 1024
const defaultOutputBytes = 64 * 1024
const maxWaitMs = 60_000
const defaultWaitMs = 30_000

/** Terminals for people: to look on, and to step in (api.md §7). */
export async function terminalRoutes(
  fastify: FastifyInstance,
  { terminals: settings }: { terminals: { maxInputBytes: number } }
): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  /** The open terminals of the sessions of a scope and of all below it. */
  const reachable = (scope: string): { terminal: OperatedTerminal; session: Session }[] => {
    const own = app.scopes.get(scope)
    return app.terminals.all().flatMap((terminal) => {
      const { owner } = terminal
      const isReached = owner instanceof Session && own !== undefined && owner.scope.isWithin(own)
      return isReached ? [{ terminal, session: owner }] : []
    })
  }
  const reach = (principal: Principal, id: string): OperatedTerminal => {
    const found = reachable(principal.scope).find(({ terminal }) => terminal.info.sessionId === id)
    if (found === undefined) throw new RequestError('UNKNOWN_TERMINAL')
    return found.terminal
  }

  app.get(
    '/terminals',
    {
      config: { action: 'events:read' },
      schema: {
        summary: 'The open terminals of a scope and of all below it, oldest first',
        querystring: Type.Object(
          {
            ...pageQuery,
            scope: Type.Optional(ScopeId),
            session: Type.Optional(SessionId),
            after: Type.Optional(Type.Integer({ minimum: 0, description: 'The `next` of the page before.' }))
          },
          { additionalProperties: false }
        ),
        response: {
          200: Type.Object({
            terminals: Type.Array(Terminal),
            next: Type.Optional(Type.Integer({ description: 'The `after` of the next page; absent at the end.' }))
          }),
          ...errorResponses('UNKNOWN_SCOPE')
        }
      }
    },
    async ({ principal, query }) => {
      const { limit = 100, after = 0, session } = query
      const { id: scope } = reachScope(app, principal, query.scope)
      const following = reachable(scope)
        .filter((entry) => session === undefined || entry.session.id === session)
        .filter(({ terminal }) => numberOf(terminal) > after)
      const page = following.slice(0, limit)
      const last = page.at(-1)
      return {
        terminals: page.map(show),
        ...(last !== undefined && following.length > limit ? { next: numberOf(last.terminal) } : {})
      }
    }
  )

  app.get(
    '/terminals/:id/output',
    {
      config: { action: 'events:read' },
      schema: {
        summary: 'What a terminal has shown',
        description:
          'Reads without consuming, from a cursor. Where there is nothing after it, beyond the end too, it waits for what comes next; ' +
          'the answer is empty if nothing does.',
        params,
        querystring: Type.Object(
          {
            after: Type.Optional(Cursor),
            maxBytes: Type.Optional(Type.Integer({ minimum: 1, maximum: maxOutputBytes, default: defaultOutputBytes })),
            waitMs: Type.Optional(
              Type.Integer({ minimum: 0, maximum: maxWaitMs, default: defaultWaitMs, description: 'Longest wait.' })
            )
          },
          { additionalProperties: false }
        ),
        response: { 200: TerminalOutput, ...errorResponses('UNKNOWN_TERMINAL') }
      }
    },
    async ({ principal, params: { id }, query }, reply) => {
      const { session } = reach(principal, id)
      const { after = '0', maxBytes = defaultOutputBytes, waitMs = defaultWaitMs } = query
      const { signal, end } = pollEnd(app, reply, waitMs)
      try {
        const { lossy: truncated, ...output } = await session.output(Number(after), maxBytes, signal)
        return { ...output, truncated, status: session.status }
      } catch (error) {
        throw refused(error, 'UNKNOWN_TERMINAL')
      } finally {
        end()
      }
    }
  )

  app.post(
    '/terminals/:id/input',
    {
      config: { action: 'terminals:operate' },
      schema: {
        summary: 'Type into a terminal',
        description: 'Also while a send of the agent is under way. The answer does not wait for what comes of it.',
        params,
        body: Type.Object(
          { text: Type.String({ description: 'As it is; a carriage return is Enter.' }) },
          { additionalProperties: false }
        ),
        response: { 200: Type.Object({}), ...errorResponses('UNKNOWN_TERMINAL', 'TERMINAL_REFUSED') }
      }
    },
    async ({ principal, params: { id }, body: { text } }) => {
      const { session } = reach(principal, id)
      if (Buffer.byteLength(text) > settings.maxInputBytes) {
        throw new RequestError('TERMINAL_REFUSED', `a terminal takes at most ${settings.maxInputBytes} bytes at a time`)
      }
      await session.input(text).catch(refuse)
      return {}
    }
  )

  app.post(
    '/terminals/:id/signal',
    {
      config: { action: 'terminals:operate' },
      schema: {
        summary: 'Signal what runs in the foreground of a terminal',
        params,
        body: Type.Object({ signal: TerminalSignal }, { additionalProperties: false }),
        response: {
          200: Type.Object({ targetPgid: Type.Integer({ description: 'The process group that got it.' }) }),
          ...errorResponses('UNKNOWN_TERMINAL', 'TERMINAL_REFUSED')
        }
      }
    },
    async ({ principal, params: { id }, body: { signal } }) => ({
      targetPgid: await reach(principal, id).session.signal(signal).catch(refuse)
    })
  )

  app.post(
    '/terminals/:id/close',
    {
      config: { action: 'terminals:operate' },
      schema: {
        summary: 'Close a terminal',
        description: 'Answers when everything that ran in it has ended.',
        params,
        response: {
          200: Type.Object({
            outcome: Type.Unsafe<'closed' | 'already-closing'>({ type: 'string', enum: ['closed', 'already-closing'] })
          }),
          ...errorResponses('UNKNOWN_TERMINAL', 'TERMINAL_REFUSED')
        }
      }
    },
    async ({ principal, params: { id } }) => ({ outcome: await reach(principal, id).close().catch(refuse) })
  )
}

/** Ids count up: the number is the cursor of the list. */
const numberOf = ({ info }: OperatedTerminal): number => Number(info.sessionId.slice(info.sessionId.indexOf('-') + 1))

function show({ terminal, session }: { terminal: OperatedTerminal; session: Session }): Static<typeof Terminal> {
  const { sessionId, ...info } = terminal.info
  return { id: sessionId, ...info, session: session.id, scope: session.scope.id }
}

/** What the terminal itself would not do is no fault of the server. */
function refused(error: unknown, code: 'TERMINAL_REFUSED' | 'UNKNOWN_TERMINAL' = 'TERMINAL_REFUSED'): unknown {
  if (!(error instanceof TerminalError)) return error
  return new RequestError(code, code === 'TERMINAL_REFUSED' ? error.message : undefined, { cause: error })
}

function refuse(error: unknown): never {
  throw refused(error)
}
