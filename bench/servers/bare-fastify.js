// The yardstick: a Fastify route with the body and the answer of `POST /invoke`, validated and serialised by schemas, that does nothing.
import Fastify from 'fastify'

const app = Fastify()
const string = { type: 'string' }
app.post('/invoke', {
  schema: {
    body: {
      type: 'object',
      required: ['name'],
      additionalProperties: false,
      properties: { scope: string, session: string, callId: string, name: string, arguments: {} }
    },
    response: {
      200: {
        type: 'object',
        properties: {
          callId: string,
          name: string,
          scope: string,
          session: string,
          callSeq: { type: 'integer' },
          resultSeq: { type: 'integer' },
          startedAt: { type: 'integer' },
          durationMs: { type: 'number' },
          isError: { type: 'boolean' },
          value: {},
          content: {
            type: 'array',
            items: { type: 'object', additionalProperties: true, properties: { type: string } }
          }
        }
      }
    },
    security: []
  },
  handler: async (request) => {
    const { name, arguments: args } = /** @type {{ name: string, arguments: { text: string } }} */ (request.body)
    return {
      callId: 'call',
      name,
      scope: 'global',
      session: 'default',
      callSeq: 0,
      resultSeq: 1,
      startedAt: Date.now(),
      durationMs: 0.1,
      isError: false,
      value: args.text,
      content: [{ type: 'text', text: args.text }]
    }
  }
})
await app.listen({ host: '127.0.0.1', port: 0 })
const address = app.server.address()
process.stdout.write(`listening ${typeof address === 'object' && address ? address.port : 0}\n`)
