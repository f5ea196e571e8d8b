import type { Static } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { toWireError } from '../plugins/engine/errors.ts'
import type { FrameConnection } from '../plugins/engine/frames.ts'
import { exactValidators, type Validator } from '../plugins/engine/validation.ts'
import { mayDo } from '../server/auth/principal.ts'
import type { Config } from '../server/config/schema.ts'
import { RequestError } from '../server/errors.ts'
import { readProviderAnswer } from '../server/executors/provider-answer.ts'
import type { Provider } from '../server/executors/provider.ts'
import type { WireToolFields } from '../server/executors/wire-tool.ts'
import { ProvidedTools, type RefusedTool } from '../server/registrations/provided-tools.ts'
import { reachScope } from './reach.ts'
import {
  CallProgressFrame,
  CallResultFrame,
  type Provide,
  provideDataPaths,
  ProvidedTool,
  ProvideFrame
} from './schemas/provider-frames.ts'

/**
 * Tools that a client runs (api.md §5): `provide` says which, answered by an `error` frame for each that is refused and then by
 * `provided`; `call` frames are answered by `call/result`, and by `call/progress` before.
 */
export async function providerFrames(
  app: FastifyInstance,
  { providers: { maxTools } }: Pick<Config, 'providers'>
): Promise<void> {
  const shared = { maxTools, tools: new ProvidedTools(app.wireTools), isTool: exactValidators()(ProvidedTool) }
  app.frames.add({
    types: {
      provide: { schema: ProvideFrame, action: 'tools:register', startsWork: true, dataPaths: provideDataPaths },
      'call/result': { schema: CallResultFrame, action: 'tools:register', dataPaths: ['value', 'content'] },
      'call/progress': { schema: CallProgressFrame, action: 'tools:register' }
    },
    open: (connection) => {
      const socket = new ProviderSocket(app, connection, shared)
      return {
        provide: (frame) => socket.provide(frame),
        'call/result': (frame, text) => socket.result(frame, text),
        'call/progress': ({ dispatchId, chunk }) => socket.progress(dispatchId, chunk)
      }
    }
  })
}

/** What all sockets have in common. */
interface Shared {
  readonly maxTools: number
  readonly tools: ProvidedTools
  readonly isTool: Validator
}

/** The providers that one socket is. */
class ProviderSocket {
  readonly #app: FastifyInstance
  readonly #connection: FrameConnection
  readonly #shared: Shared
  readonly #providers = new Set<Provider>()
  readonly #providing = new Set<Provider>()
  #stopListening: (() => void) | undefined

  constructor(app: FastifyInstance, connection: FrameConnection, shared: Shared) {
    this.#app = app
    this.#connection = connection
    this.#shared = shared
  }

  async provide({ id, providerId, scope: scopeId, tools }: Provide): Promise<void> {
    const app = this.#app
    const connection = this.#connection
    const { principal } = connection
    // Frames that were on their way when the token ended still come.
    if (!app.tokens.isLive(principal)) throw new RequestError('UNAUTHENTICATED')
    const scope = reachScope(app, principal, scopeId)
    const { maxTools } = this.#shared
    if (tools.length > maxTools) throw limited('A provider has too many tools.', 'providers.maxTools', maxTools)
    const provider = app.providers.claim(scope, providerId, principal.tokenId)
    if (this.#providing.has(provider)) {
      throw new RequestError('RATE_LIMITED', 'The tools that this provider has sent are still being registered.')
    }
    const about = { ...(id === undefined ? {} : { id }), providerId }
    this.#providing.add(provider)
    try {
      this.#attach(provider)
      const author = { reach: reachScope(app, principal), mayConfigure: mayDo(principal, 'scopes:write') }
      const { list, refused } = this.#sorted(tools)
      const named = new Set(tools.map(({ name }) => name))
      const failed = await this.#shared.tools.provide(author, scope, provider, { list, named })
      for (const { name, error } of [...refused, ...failed]) {
        const { code, message, details } = toWireError(error)
        if (code === 'INTERNAL') connection.log.error({ err: error, tool: name }, 'a tool could not be registered')
        const why = { code, message, ...(details === undefined ? {} : { details }) }
        await connection.sendInTurn({ type: 'error', ...about, name, ...why })
      }
      const failedNames = new Set(failed.map(({ name }) => name))
      await connection.sendInTurn({
        type: 'provided',
        ...about,
        scope: scope.id,
        tools: list.map(({ name }) => name).filter((name) => !failedNames.has(name)),
        pending: provider.isOn(connection) ? provider.pending : [],
        maxFrameBytes: app.connections.limits.maxFrameBytes
      })
    } finally {
      this.#providing.delete(provider)
    }
  }

  /** An answer that nobody waits for counts for nothing, which its provider may want to know. */
  result({ dispatchId, ...given }: Static<typeof CallResultFrame>, text: string): void {
    const answer = readProviderAnswer(given, text)
    for (const provider of this.#providers) if (provider.answer(this.#connection, dispatchId, answer)) return
    const message = 'No call of this dispatchId waits for an answer of this socket.'
    this.#connection.send({ type: 'error', dispatchId, code: 'UNKNOWN_CALL', message })
  }

  /** What comes after the end of a call is of no use to anybody. */
  progress(dispatchId: string, chunk: string): void {
    for (const provider of this.#providers) if (provider.progress(this.#connection, dispatchId, chunk)) return
  }

  #attach(provider: Provider): void {
    const { tokens } = this.#app
    const { closed, principal } = this.#connection
    if (this.#stopListening === undefined) {
      this.#stopListening = tokens.onEnded(() => {
        // A revoked socket may take its time to close.
        if (!tokens.isLive(principal)) this.#leave()
      })
      closed.addEventListener('abort', () => this.#leave(), { once: true })
    }
    // Those that another socket took over, or whose scope went, are this one's no more.
    for (const each of this.#providers) if (!each.isOn(this.#connection)) this.#providers.delete(each)
    this.#providers.add(provider)
    provider.attach(this.#connection)
  }

  #leave(): void {
    this.#stopListening?.()
    for (const provider of this.#providers) this.#app.providers.detach(provider, this.#connection)
    this.#providers.clear()
  }

  /** The tools that are as they must be, each name once, and the others with what is wrong with them. */
  #sorted(tools: Provide['tools']): { list: WireToolFields[]; refused: RefusedTool[] } {
    const { isTool } = this.#shared
    const list = new Map<string, WireToolFields>()
    const refused: RefusedTool[] = []
    for (const tool of tools) {
      const { name } = tool
      if (list.has(name)) {
        refused.push({ name, error: new RequestError('DUPLICATE_TOOL', `The tool "${name}" is on the list twice.`) })
      } else if (isTool(tool)) {
        list.set(name, tool as unknown as WireToolFields)
      } else {
        const [first] = isTool.errors ?? []
        const what = `tool${(first?.instancePath ?? '').replaceAll('/', '.')} ${first?.message ?? 'is not valid'}`
        refused.push({ name, error: new RequestError('INVALID_DEFINITION', what) })
      }
    }
    return { list: [...list.values()], refused }
  }
}

const limited = (message: string, limit: string, value: number): RequestError =>
  new RequestError('RATE_LIMITED', message, { details: { limit, value } })
