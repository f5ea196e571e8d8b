import { realpath } from 'node:fs/promises'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { createRunCode, type MountedRuntime } from '../../server/code-mode/run-code.ts'
import { sdkSections } from '../../server/code-mode/sdk-section.ts'
import type { CodeRuntime, ProgramLanguage } from '../../server/code-runtime/code-runtime.ts'
import { openProcessRuntime } from '../../server/code-runtime/process/process-runtime.ts'
import type { RuntimeOptions } from '../../server/code-runtime/program-runtime.ts'
import { openPythonRuntime } from '../../server/code-runtime/python/python-runtime.ts'
import { openWorkerRuntime } from '../../server/code-runtime/worker/worker-runtime.ts'
import type { Config } from '../../server/config/schema.ts'
import { Session } from '../../server/sessions/session.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import type { SectionProvider } from '../../server/tools/presentation.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The transport of code mode, which the registry shows where the mode is not native. */
    runCode: ToolDefinition
    /** What code mode adds to a prompt (code-mode.md §3). */
    promptSections: SectionProvider
    /** Resolves with the runtime that programs run in, once it is open; undefined if there is none. Never rejects. */
    codeRuntime: Promise<CodeRuntime | undefined>
  }
}

/**
 * Code mode: the configured runtime, `run_code` and its part of the prompts. The runtime is opened beside the start of the server, as
 * its first world takes most of a second; programs that come before wait for it. One that cannot be opened is none.
 */
export const codeRuntime = fp(
  async (fastify: FastifyInstance, config: Config) => {
    const { registry, pipeline, liveEvents } = fastify
    const opening = open(config, (stuck) => {
      fastify.log.warn({ stuck }, 'worlds of programs have not ended although they were told to')
    })
    let mounted: MountedRuntime | undefined = opening && {
      language: opening.language,
      run: async (request) => (await opening.runtime).run(request)
    }
    const settled = opening?.runtime.then(
      (runtime) => {
        const { isolation, containment } = runtime
        fastify.log.info({ isolation, containment }, 'programs can run')
        return runtime
      },
      (error: unknown) => {
        fastify.log.error({ err: error }, 'programs cannot run: the code runtime did not open')
        mounted = undefined
        registry.changed()
        return undefined
      }
    )
    const runCode = createRunCode({
      registry,
      pipeline,
      runtime: () => mounted,
      ...config.codeMode,
      maxStoredPayloadBytes: config.calls.maxStoredPayloadBytes,
      append: async (agent, event) => {
        const closing = event.type === 'tool/code-dispatch'
        if (agent instanceof Session) await agent.append([event], { closing })
      },
      onProgress: ({ id, scope }, call, chunk) =>
        liveEvents.publish('tool/progress', { session: id, scope: scope.id, ...call, chunk })
    })
    fastify.decorate('runCode', runCode)
    fastify.decorate('codeRuntime', Promise.resolve(settled))
    fastify.decorate('promptSections', ({ mode, tools }) => sdkSections({ mode, language: mounted?.language, tools }))
    fastify.addHook('onClose', async () => (await settled)?.dispose())
  },
  { name: 'code-runtime', fastify: '5.x', dependencies: ['tools', 'events', 'calls'] }
)

/** Begins to open the configured runtime. Its language is known at once. */
function open(
  { home, auth, calls, codeRuntime: settings }: Config,
  onStuck: (count: number) => void
): { language: ProgramLanguage; runtime: Promise<CodeRuntime> } | undefined {
  const { backend, pythonPath, ...limits } = settings
  // What a program says is stored as the result of its call.
  const maxOutputBytes = Math.min(limits.maxOutputBytes, calls.maxStoredPayloadBytes)
  const options = { ...limits, maxOutputBytes, onStuck } satisfies RuntimeOptions
  switch (backend) {
    case 'process':
      return {
        language: 'typescript',
        runtime: hiding([home, auth.tokenFile], (hiddenPaths) => openProcessRuntime({ ...options, hiddenPaths }))
      }
    case 'worker-thread':
      return { language: 'typescript', runtime: openWorkerRuntime(options) }
    case 'python': {
      const python = pythonPath === undefined ? {} : { pythonPath }
      return {
        language: 'python',
        runtime: hiding([home, auth.tokenFile], (hiddenPaths) =>
          openPythonRuntime({ ...options, ...python, hiddenPaths })
        )
      }
    }
    case 'off':
      return undefined
  }
}

/** Programs have no business with the server's state, or the token that it was started with. */
async function hiding(
  paths: (string | undefined)[],
  openWith: (hiddenPaths: string[]) => Promise<CodeRuntime>
): Promise<CodeRuntime> {
  return openWith(await Promise.all(paths.filter((path) => path !== undefined).map((path) => realpath(path))))
}
