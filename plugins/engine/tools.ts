import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { type ToolEngine, type ToolScope, toolScopeOf } from '../../server/authoring/tool-scope.ts'
import type { Config } from '../../server/config/schema.ts'
import { CallObservers } from '../../server/pipeline/observers.ts'
import { createPipeline, type Pipeline } from '../../server/pipeline/pipeline.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import { Registry } from '../../server/tools/registry.ts'

declare module 'fastify' {
  interface FastifyInstance {
    scopes: ScopeTree
    registry: Registry
    pipeline: Pipeline
    callObservers: CallObservers
    /** The scope that plugins of this instance register in: the global one, or that of `{ scope }` (architecture.md §4). */
    tools: ToolScope
  }
}

/** The engine: one scope tree, its registry and the pipeline. `fastify.tools` is the global scope of that tree. */
export const tools = fp(
  async (fastify: FastifyInstance, { presentation }: { presentation: Config['presentation'] }) => {
    const tree = new ScopeTree()
    const registry = new Registry({
      tree,
      defaultMode: () => presentation.mode,
      // Stands on the pipeline, which stands on the registry.
      transport: () => fastify.runCode
    })
    const warn = (message: string, details: object): void => fastify.log.warn(details, message)
    const observers = new CallObservers(warn)
    const pipeline = createPipeline({
      tree,
      observers,
      registry,
      // Looked up with each ask: the service stands on what stands on the pipeline.
      approvals: () => fastify.approvals,
      warn
    })
    const services = fastify as unknown as Record<string, unknown>
    const engine: ToolEngine = { tree, registry, pipeline, service: (name) => services[name] }
    fastify.decorate('scopes', tree)
    fastify.decorate('registry', registry)
    fastify.decorate('pipeline', pipeline)
    fastify.decorate('callObservers', observers)
    fastify.decorate('tools', toolScopeOf(engine, tree.global))
    fastify.addHook('onRegister', (instance, options) => {
      const { scope } = options as { scope?: unknown }
      if (typeof scope === 'string') instance.tools = instance.tools.child(scope)
    })
  },
  { name: 'tools', fastify: '5.x' }
)
