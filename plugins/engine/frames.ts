import type { Static, TSchema } from '@sinclair/typebox'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { type Action, mayDo, type Principal } from '../../server/auth/principal.ts'
import { RequestError } from '../../server/errors.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import { parseJson } from '../../server/json/parse-text.js'
import { maxBodyDepth, refusePoisonKeys } from './body.ts'
import { toWireError } from './errors.ts'
import { exactValidators, type Validator } from './validation.ts'

declare module 'fastify' {
  interface FastifyInstance {
    frames: FrameTable
  }
}

/** One client's socket, as the handlers of its frames see it. */
export interface FrameConnection {
  readonly principal: Principal
  readonly log: FastifyBaseLogger
  /** Fires when the socket is gone; whatever was opened for it ends then. */
  readonly closed: AbortSignal
  /** Sends one frame; after the close it does nothing. */
  send(frame: object): void
  /** Sends one frame whose JSON text is made already. */
  sendText(text: string): void
  /** As `send`, but once the socket takes more: for what is large, of which there may be much. */
  sendInTurn(frame: object): Promise<void>
  /** Whether more is waiting to be sent than the high water allows; then a stream should wait for `whenWritable`. */
  readonly isBackedUp: boolean
  /** Resolves when the socket takes more, or is closed. */
  whenWritable(): Promise<void>
}

/** One type of frame: the schema of all its members, who may send it, and where it holds data (as `dataPaths` of a route). */
export interface FrameType {
  schema: TSchema
  action: Action
  dataPaths?: readonly string[]
  /** It starts work, so it is refused with SHUTTING_DOWN from the moment the shutdown begins. */
  startsWork?: true
}

/**
 * Frame types that share state per socket. `open` runs once for each socket and returns a handler per type, which gets the frame
 * and its text. A handler registers what it opens before it first awaits, so that a frame sent right after finds it. What it
 * throws goes to the client as an `error` frame with the `id` of the frame.
 */
export interface FrameFamily<T extends Record<string, FrameType>> {
  types: T
  open(connection: FrameConnection): {
    [K in keyof T]: (frame: Static<T[K]['schema']>, text: string) => void | Promise<void>
  }
}

interface KnownFrame {
  readonly validate: Validator
  readonly frameType: FrameType
}

type Handler = (frame: unknown, text: string) => void | Promise<void>

/** Every type of frame that clients may send. Plugins and routes add theirs before the server is ready. */
export class FrameTable {
  readonly #validatorOf = exactValidators()
  readonly #isDraining: () => boolean
  readonly #assertNoPressure: () => void
  readonly #known = new Map<string, KnownFrame>()
  readonly #families: FrameFamily<Record<string, FrameType>>[] = []

  /** `assertNoPressure` throws what a frame that starts work is refused with while the process is in trouble. */
  constructor(isDraining: () => boolean, assertNoPressure: () => void) {
    this.#isDraining = isDraining
    this.#assertNoPressure = assertNoPressure
  }

  add<T extends Record<string, FrameType>>(family: FrameFamily<T>): void {
    for (const [type, frameType] of Object.entries(family.types)) {
      if (this.#known.has(type)) throw new Error(`Frames of type ${type} are handled already.`)
      this.#known.set(type, { validate: this.#validatorOf(frameType.schema), frameType })
    }
    this.#families.push(family)
  }

  /** The receiver of one socket's messages. It never throws: what is wrong with a message is answered (api.md §5). */
  open(connection: FrameConnection): (text: string | undefined) => Promise<void> {
    const handlers = new Map<string, Handler>()
    for (const family of this.#families) {
      for (const [type, handle] of Object.entries(family.open(connection))) handlers.set(type, handle)
    }
    return async (text) => {
      let frame: { [key: string]: JsonValue } = {}
      try {
        frame = parseFrame(text)
        const known = typeof frame.type === 'string' ? this.#known.get(frame.type) : undefined
        const handle = handlers.get(frame.type as string)
        if (!known || !handle) throw new BadFrame('No frame of this type is known here.')
        refuseBadFrame(frame, known)
        if (!mayDo(connection.principal, known.frameType.action)) throw new RequestError('FORBIDDEN')
        if (known.frameType.startsWork) {
          if (this.#isDraining()) throw new RequestError('SHUTTING_DOWN')
          this.#assertNoPressure()
        }
        await handle(frame, text as string)
      } catch (error) {
        connection.send({ type: 'error', ...namesIn(frame), ...describe(error, connection) })
      }
    }
  }
}

/** What the client knows its frame by: a provider whose answer is none has to know which call still waits. */
const namesIn = (frame: { [key: string]: JsonValue }): Record<string, JsonValue | undefined> =>
  Object.fromEntries(['id', 'dispatchId'].filter((name) => isName(frame[name])).map((name) => [name, frame[name]]))

const isName = (value: JsonValue | undefined): boolean => typeof value === 'string' && value.length <= 256

/** The client sent something that is no frame of ours. */
class BadFrame extends Error {}

function parseFrame(text: string | undefined): { [key: string]: JsonValue } {
  if (text === undefined) throw new BadFrame('Frames are text.')
  let value: JsonValue
  try {
    value = parseJson(text, { maxDepth: maxBodyDepth })
  } catch (error) {
    throw new BadFrame((error as Error).message)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new BadFrame('A frame is one JSON object.')
  return value
}

function refuseBadFrame(frame: { [key: string]: JsonValue }, { validate, frameType }: KnownFrame): void {
  try {
    refusePoisonKeys(frame, frameType.dataPaths ?? [])
  } catch (error) {
    throw new BadFrame((error as Error).message)
  }
  if (!validate(frame)) {
    const [first] = validate.errors ?? []
    throw new BadFrame(`frame${(first?.instancePath ?? '').replaceAll('/', '.')} ${first?.message ?? 'is not valid'}`)
  }
}

function describe(error: unknown, { log }: FrameConnection): Record<string, unknown> {
  if (error instanceof BadFrame) return { code: 'BAD_FRAME', message: error.message }
  const { code, message, details, headers } = toWireError(error)
  if (code === 'INTERNAL') log.error({ err: error }, 'a frame failed inside the server')
  const { location } = headers
  return { code, message, ...(details !== undefined && { details }), ...(location !== undefined && { location }) }
}

/** Decorates the server with `frames`, the table of frame types. */
export const frames = fp(
  async (fastify: FastifyInstance) => {
    fastify.decorate(
      'frames',
      new FrameTable(
        () => fastify.shutdown.isDraining,
        () => fastify.shedding.assertNone()
      )
    )
  },
  { name: 'frames', fastify: '5.x', dependencies: ['shutdown', 'load-shedding'] }
)
