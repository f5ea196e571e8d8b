import { pathToFileURL } from 'node:url'
import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import { pluginKey } from '../../server/authoring/plugin.ts'
import { ConfigError } from '../../server/config/load.ts'
import type { Config } from '../../server/config/schema.ts'
import { CodedError } from '../../server/errors.ts'
import { accept, allow, ask, block, deny } from '../../server/pipeline/decisions.ts'
import { definePlugin } from '../define-plugin.ts'

/** What a plugin file is handed, so that it can lie anywhere and needs to resolve no package (docs/writing-a-tool.md). */
const authoring = { definePlugin, defineTool, text, allow, deny, ask, accept, block, CodedError }

export type Authoring = typeof authoring

type PluginFile = { default?: unknown }

/**
 * Loads the plugins that the configuration names, in order, before the server is ready (architecture.md §4). A file's default export
 * is a function that gets `Authoring` and returns what `definePlugin` made. One that does not load stops the boot and is named:
 * starting again helps a plugin whose registration fails, not a file that is no plugin.
 */
export const operatorPlugins = fp(
  async (fastify: FastifyInstance, { plugins }: Pick<Config, 'plugins'>) => {
    for (const file of plugins) {
      const plugin = await load(file)
      try {
        await fastify.register(plugin)
      } catch (error) {
        throw new Error(`the plugin file ${file} does not load: ${(error as Error).message}`, { cause: error })
      }
    }
  },
  { name: 'operator-plugins', fastify: '5.x', dependencies: ['tools'] }
)

async function load(file: string): Promise<FastifyPluginAsync> {
  try {
    return pluginOf((await import(pathToFileURL(file).href)) as PluginFile)
  } catch (error) {
    throw new ConfigError([`plugins: ${file} does not load: ${(error as Error).message}`])
  }
}

function pluginOf({ default: make }: PluginFile): FastifyPluginAsync {
  const made: unknown = typeof make === 'function' && !(pluginKey in make) ? make(authoring) : make
  if (typeof made !== 'function' || !(pluginKey in made)) {
    throw new TypeError('its default export is not a function that returns what definePlugin makes')
  }
  return made as unknown as FastifyPluginAsync
}
