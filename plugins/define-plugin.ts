import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { type Plugin, type PluginBody, pluginKey } from '../server/authoring/plugin.ts'
import type { ToolScope } from '../server/authoring/tool-scope.ts'
import type { Services } from '../server/services.ts'

/**
 * Makes a plugin of a body that registers tools, hooks and guards (architecture.md §4). The value can be given to
 * `fastify.register(plugin, { scope?, …options })`, which mounts it on the instance's `tools` before the server is ready, and to
 * `scope.mount(plugin, options)` at run time. `needs` are services that must be there: the load fails naming what is missing.
 * A body that throws or rejects undoes what it had registered, and fails the load naming the plugin.
 */
export function definePlugin<const Need extends keyof Services = never, Options extends object = object>(
  meta: { name: string; needs?: readonly Need[] },
  body: PluginBody<Pick<Services, Need>, Options>
): FastifyPluginAsync<Options & { scope?: string }> & Plugin<Options> {
  const { name, needs = [] } = meta
  const plugin: Plugin<Options> = { [pluginKey]: { name, needs, body } }

  const register: FastifyPluginAsync<Options & { scope?: string }> = async (fastify, { scope: _scope, ...options }) => {
    // `{ scope }` has done its work by now: an `onRegister` hook has given this instance the `tools` of that scope.
    const instance = fastify as FastifyInstance & { readonly tools: ToolScope } & Record<string, unknown>
    const mounted = await instance.tools
      .mount(plugin, options as unknown as Options, (service) => instance[service])
      .catch((error: unknown) => {
        throw new Error(`plugin "${name}" failed to load: ${String(error)}`, { cause: error })
      })
    fastify.addHook('onClose', () => mounted.dispose())
  }
  return Object.assign(fp(register, { name, encapsulate: true, decorators: { fastify: ['tools', ...needs] } }), plugin)
}
