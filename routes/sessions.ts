import { Readable } from 'node:stream'
import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { RequestError } from '../server/errors.ts'
import type { StoredEvent } from '../server/event-log/event-log.ts'
import { reachSession } from './reach.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { StoredEvent as StoredEventSchema } from './schemas/events.ts'
import { pageQuery, SessionId } from './schemas/ids.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const Session = Type.Object({
  id: Type.String(),
  scope: Type.String(),
  createdAt: Type.Integer({ description: 'Epoch milliseconds.' }),
  cwd: Type.Optional(Type.String())
})

const sessionParams = Type.Object({ session: SessionId })

/** Sessions and what their log holds (api.md §4). */
export async function sessionRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

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
      const { id, scope, createdAt, cwd } = await reachSession(app, principal, params.session)
      return { id, scope: scope.id, createdAt, ...(cwd === undefined ? {} : { cwd }) }
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
              Type.Integer({ minimum: -1, description: 'Seq after which to begin; -1, or absent, is the start.' })
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

function withView(app: FastifyInstance, stored: StoredEvent): Static<typeof StoredEventSchema> {
  const { scope: _scope, ...event } = stored
  const view = app.eventViews.viewOf(stored)
  return (view === undefined ? event : { ...event, view }) as Static<typeof StoredEventSchema>
}
