import type { ToolScope } from './tool-scope.ts'

/** Marks a plugin value. A shared symbol, so that a plugin file with a copy of this module is known all the same. */
export const pluginKey = Symbol.for('toolwright.plugin')

/** What a plugin does where it is mounted: it registers tools, hooks and guards. An async body is awaited. */
export type PluginBody<Services, Options> = (
  tools: ToolScope,
  services: Services,
  options: Options
) => void | Promise<void>

/** What `definePlugin` makes: the same value is registered in Fastify and mounted on a live scope (architecture.md §4). */
export interface Plugin<Options extends object = object> {
  readonly [pluginKey]: {
    readonly name: string
    /** Services that must be there before the body runs. */
    readonly needs: readonly string[]
    readonly body: PluginBody<never, Options>
  }
}

/** Throws for a value that `definePlugin` did not make: what a configured file exports may be anything. */
export function assertPlugin(value: unknown): asserts value is Plugin {
  const isHolder = typeof value === 'function' || (typeof value === 'object' && value !== null)
  if (!isHolder || !Object.hasOwn(value, pluginKey)) throw new TypeError('this is not a plugin made by definePlugin')
}

/** Collects the services that a plugin needs; throws naming the plugin and the first one that is not there. */
export function servicesFor(plugin: Plugin<never>, service: (name: string) => unknown): Record<string, unknown> {
  const { name, needs } = plugin[pluginKey]
  return Object.fromEntries(
    needs.map((need) => {
      const value = service(need)
      if (value === undefined) throw new Error(`plugin "${name}" needs the service "${need}", which is not there`)
      return [need, value]
    })
  )
}
