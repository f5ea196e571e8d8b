import { Readable } from 'node:stream'
import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { Config } from '../server/config/schema.ts'
import { RequestError } from '../server/errors.ts'
import type { Row, StoredEvent } from '../server/event-log/event-log.ts'
import type { Session as LiveSession } from '../server/sessions/session.ts'
import { reachScope, reachSession } from './reach.ts'
import { allowedDirectory } from './session-directory.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { StoredEvent as StoredEventSchema } from './schemas/events.ts'
import { pageQuery, ScopeId, SessionId } from './schemas/ids.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const Session = Type.Object({
  id: Type.String(),
  scope: Type.String(),
  createdAt: Type.Integer({ description: 'Epoch milliseconds.' }),
  cwd: Type.Optional(Type.String()),
  turn: Type.Integer({ description: 'The turn opened last; 0 before the first use.' }),
  isTurnOpen: Type.Boolean()
})

const sessionParams = Type.Object({ session: SessionId })

/** Sessions and what their log holds (api.md §4). */
export async function sessionRoutes(fastify: FastifyInstance, { workspace }: Pick<Config, 'workspace'>): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  app.get(
    '/sessions',
    {
      config: { action: 'events:read' },
      schema: {
        summary: 'The stored sessions of a scope and of all below it, in order of their ids',
        querystring: Type.Object(
          {
            ...pageQuery,
            scope: Type.Optional(ScopeId),
            after: Type.Optional(Type.String({ maxLength: 136, description: 'The `next` of the page before.' }))
          },
          { additionalProperties: false }
        ),
        response: {
          200: Type.Object({
            sessions: Type.Array(Session),
            next: Type.Optional(Type.String({ description: 'The `after` of the next page; absent at the end.' }))
          }),
          ...errorResponses('UNKNOWN_SCOPE')
        }
      }
    },
    async ({ principal, query }) => {
      const scopes = app.scopes.subtree(reachScope(app, principal, query.scope))
      const { limit = 100, after = '' } = query
      const { rows, next } = await app.sessions.list(scopes, { after, limit })
      return { sessions: rows.map(rowView), ...(next === undefined ? {} : { next }) }
    }
  )

  app.put(
    '/sessions/:session',
    {
      config: { action: 'sessions:write', startsWork: true },
      schema: {
        summary: 'Make a session before its first use',
        description: 'One that is there already stays as it is: 200 if it is just so, else 409 `SESSION_FIXED`.',
        params: sessionParams,
        body: Type.Object(
          {
            scope: Type.Optional(ScopeId),
            cwd: Type.Optional(
              Type.String({
                minLength: 1,
                maxLength: 4096,
                description: 'Working directory; outside the configured `workspace.roots` it is an admin’s.'
              })
            )
          },
          { additionalProperties: false }
        ),
        response: {
          200: Session,
          201: Session,
          ...errorResponses('UNKNOWN_SCOPE', 'UNKNOWN_SESSION', 'SESSION_FIXED')
        }
      }
    },
    async ({ principal, params, body }, reply) => {
      const scope = reachScope(app, principal, body.scope)
      const cwd = body.cwd === undefined ? undefined : await allowedDirectory(body.cwd, workspace.roots, principal)
      const { session, isNew } = await app.sessions.create(scope, params.session, cwd)
      if (isNew) void reply.code(201)
      return view(session)
    }
  )

  app.delete(
    '/sessions/:session',
    {
      config: { action: 'sessions:delete' },
      schema: {
        summary: 'Delete a session with its events',
        description: 'Its calls are aborted and waited for.',
        params: sessionParams,
        response: { 204: Type.Null(), ...errorResponses('UNKNOWN_SESSION') }
      }
    },
    async ({ principal, params }, reply) => {
      const session = await reachSession(app, principal, params.session)
      const { calls } = app.callEngine
      await app.sessions.delete(session, async () => {
        const isOf = (call: { session: unknown }): boolean => call.session === session
        calls.abort(new Error('the session was deleted'), isOf)
        await calls.whenQuiet(isOf)
      })
      return reply.code(204).send(null)
    }
  )

  app.get(
    '/sessions/:session',
    {
      config: { action: 'events:read' },
      schema: {
        summary: 'One session',
        params: sessionParams,
        response: { 200: Session, ...errorResponses('UNKNOWN_SESSION') }
      }
    },
    async ({ principal, params }) => {
      return view(await reachSession(app, principal, params.session))
    }
  )

  app.get(
    '/sessions/:session/events',
    {
      config: { action: 'events:read' },
      schema: {
        summary: 'The events of a session, oldest first',
        params: sessionParams,
        querystring: Type.Object(
          {
            ...pageQuery,
            after: Type.Optional(
              Type.Integer({
                minimum: -1,
                maximum: Number.MAX_SAFE_INTEGER,
                description: 'Seq after which to begin; -1, or absent, is the start.'
              })
            ),
            type: Type.Optional(
              Type.String({
                maxLength: 1024,
                description: 'Types to return, separated by commas; `tool/*` is a prefix.'
              })
            )
          },
          { additionalProperties: false }
        ),
        response: {
          200: Type.Object({
            events: Type.Array(StoredEventSchema),
            head: Type.Integer({ description: 'Last seq of the session; -1 when it has none.' }),
            logId: Type.String({ description: 'Changes when the log is another one than before.' }),
            next: Type.Optional(Type.Integer({ description: 'The `after` of the next page; absent at the end.' }))
          }),
          ...errorResponses('UNKNOWN_SESSION', 'CURSOR_EXPIRED', 'LOG_CORRUPT')
        }
      }
    },
    async ({ principal, params, query }) => {
      const { id } = await reachSession(app, principal, params.session)
      const after = query.after ?? -1
      const types = query.type?.split(',').filter((type) => type !== '')
      const page = await app.eventLog.read({
        session: id,
        after,
        limit: query.limit ?? 100,
        ...(types === undefined || types.length === 0 ? {} : { types })
      })
      if (page.oldest !== undefined && after >= 0) {
        throw new RequestError('CURSOR_EXPIRED', undefined, { details: { oldest: page.oldest } })
      }
      await app.eventViews.prepare(page.events)
      const events = page.events.map((event) => withView(app, event))
      const next = page.next === undefined ? {} : { next: page.next }
      return { events, head: page.head, logId: app.eventLog.logId, ...next }
    }
  )

  app.get(
    '/sessions/:session/export',
    {
      config: { action: 'events:read' },
      schema: {
        summary: 'A session as zstd-compressed JSON lines',
        description: '`session.jsonl.zstd`: the first line is the header, each further line one event.',
        produces: ['application/zstd'],
        params: sessionParams,
        response: {
          200: Type.Unsafe<Readable>({ type: 'string', format: 'binary' }),
          ...errorResponses('UNKNOWN_SESSION', 'LOG_CORRUPT')
        }
      }
    },
    async ({ principal, params }, reply) => {
      const { id } = await reachSession(app, principal, params.session)
      return reply
        .type('application/zstd')
        .header('content-disposition', 'attachment; filename="session.jsonl.zstd"')
        .send(Readable.from(app.eventLog.exportSession(id), { objectMode: false }))
    }
  )
}

function view({ id, scope, createdAt, cwd, turns }: LiveSession): Static<typeof Session> {
  const { turn, isOpen } = turns.state
  return { id, scope: scope.id, createdAt, ...(cwd === undefined ? {} : { cwd }), turn, isTurnOpen: isOpen }
}

const rowView = (row: Row): Static<typeof Session> => ({
  id: String(row['id']),
  scope: String(row['scope']),
  createdAt: Number(row['created_at']),
  ...(row['cwd'] === null ? {} : { cwd: String(row['cwd']) }),
  turn: Number(row['turn']),
  isTurnOpen: row['turn_open'] === 1
})

function withView(app: FastifyInstance, stored: StoredEvent): Static<typeof StoredEventSchema> {
  const { scope: _scope, ...event } = stored
  const view = app.eventViews.viewOf(stored)
  return (view === undefined ? event : { ...event, view }) as Static<typeof StoredEventSchema>
}
