import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { ImportedTools } from '../../server/registrations/imported-tools.ts'

declare module 'fastify' {
  interface FastifyInstance {
    importedTools: ImportedTools
  }
}

/** The tools that were imported from API documents, and those of them that wait to be accepted (api.md §3). */
export const toolImports = fp(
  async (fastify: FastifyInstance) => {
    const { eventLog: log, scopes: tree, wireTools: tools, definitionPins: pins, registry } = fastify
    const service = new ImportedTools({
      ...{ log, tree, tools, pins },
      isTaken: (name, scope) => registry.isTaken(name, scope),
      now: () => Date.now(),
      warn: (message, details) => fastify.log.warn(details, message)
    })
    fastify.decorate('importedTools', service)
    fastify.addHook('onClose', () => service.close())
  },
  { name: 'tool-imports', fastify: '5.x', dependencies: ['wire-tools', 'http-tools'] }
)
