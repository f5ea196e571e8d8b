import { hash, randomUUID } from 'node:crypto'
import { RequestError } from '../errors.ts'
import { canonicalJson } from '../json/canonical.ts'
import { compactText } from '../json/compact-text.ts'
import { isLosslessJson, type JsonValue } from '../json/lossless.ts'
import { unsafeNumberPaths } from '../json/parse-body.ts'
import { JsonTextError, parseJson } from '../json/parse-text.js'
import { formatPath, type PathStep } from '../json/path.ts'
import { stringifyJson } from '../json/serialize.ts'
import { ToolArgsError } from '../tools/args-error.ts'
import type { SentArguments } from './sent-arguments.ts'

/** What a request says of one call (api.md §2): `rawArguments`, as a model wrote them, or `arguments`; neither means `{}`. */
export interface CallRequest {
  callId?: string
  name: string
  arguments?: JsonValue
  rawArguments?: string
  /** What `arguments` was sent as; absent: from within the process. */
  sent?: SentArguments
}

/** A call with its id, its arguments parsed once, and what its identity is. */
export interface ParsedCall {
  callId: string
  isNamedByCaller: boolean
  name: string
  arguments: JsonValue
  /** What `tool/call` stores. */
  raw: string
  argumentsHash: string
  /** Fails the call before any policy sees it. */
  argumentsError?: Error
}

/** As deep as a body may nest (api.md §8). */
const maxRawDepth = 256

// Control characters are what a log line or a terminal would act upon; half a surrogate pair the store gives back as another text.
const callIdPattern = /^[^\p{Cc}\p{Cs}]{1,256}$/u
const halfPair = /\p{Cs}/u

export function parseCall(request: CallRequest): ParsedCall {
  if (request.callId !== undefined && !callIdPattern.test(request.callId)) {
    throw new RequestError('BAD_REQUEST', 'a callId is 1 to 256 characters without controls')
  }
  if (halfPair.test(request.name)) throw new RequestError('BAD_REQUEST', 'the name has half a surrogate pair in it')
  if (request.arguments !== undefined && request.rawArguments !== undefined) {
    throw new RequestError('BAD_REQUEST', 'arguments and rawArguments exclude each other')
  }
  const { rawArguments } = request
  const { value, error, isExact } =
    rawArguments === undefined
      ? fromValue(request.arguments === undefined ? {} : request.arguments, request.sent)
      : fromRaw(rawArguments)
  const raw = rawArguments ?? storedText(value, isExact, request.sent)
  return {
    callId: request.callId ?? newCallId(),
    isNamedByCaller: request.callId !== undefined,
    name: request.name,
    arguments: value,
    raw,
    // An infinity, say, is written as null: what is not what was sent is known by what was sent.
    argumentsHash: digest(isExact ? canonicalJson(value) : raw),
    ...(error === undefined ? {} : { argumentsError: error })
  }
}

interface Arguments {
  value: JsonValue
  /** Why the value must not run. */
  error?: Error
  /** It is what was sent: no number of it was rounded, overflowed or lost its sign. */
  isExact: boolean
}

/** Without one of these no number of a JSON text is `-0` or overflows. */
const maybeLossy = /-0|\d[eE]|\d{309}/

function fromValue(value: JsonValue, sent: SentArguments | undefined): Arguments {
  if (sent?.unsafe !== undefined) return { value, error: unsafeInteger(sent.unsafe), isExact: false }
  return { value, isExact: isLosslessJson(value) }
}

/**
 * Empty text is `{}`; text that is not JSON is itself the arguments, so that a typed tool refuses it (core.md §22.1). Text that nests
 * deeper than any body may fails its call (api.md §8): a copy of it would cost the event loop more than it is worth.
 */
function fromRaw(text: string): Arguments {
  if (text === '') return { value: {}, isExact: true }
  try {
    const value = parseJson(text, { maxDepth: maxRawDepth })
    const [unsafe] = unsafeNumberPaths(text, 0)
    if (unsafe !== undefined) return { value, error: unsafeInteger(unsafe), isExact: false }
    return { value, isExact: !maybeLossy.test(text) || isLosslessJson(value) }
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error
    if (error.reason === 'syntax') return { value: text, isExact: true }
    const tooDeep = new Error(`the arguments are not lossless JSON: ${error.message}`)
    return { value: text, error: tooDeep, isExact: false }
  }
}

const unsafeInteger = (path: readonly PathStep[]): ToolArgsError =>
  new ToolArgsError([`"${formatPath('', path)}" is an integer beyond 2^53 - 1; send it as a string`])

/**
 * Unique, and in order of time: ids that are spread over the log's indexes make each commit write twice as many pages. A version 7
 * UUID (RFC 9562) in form.
 */
function newCallId(): string {
  const time = Date.now().toString(16).padStart(12, '0')
  // The random digits of a version 4 one: Node keeps those at hand, and makes single ones at ten times the cost.
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

const digest = (text: string): string => hash('sha256', text, 'base64url')

/** In compact text a key that the engine moves before all others (`"1":`); seldom the end of another key that looks like it. */
const movedKey = /"\d+":/

/**
 * Compact JSON text, its keys in the order received; as received where the value is not lossless, since writing it anew would change it
 * (api.md §2). What was sent is read again only where the value does not tell: a call costs one more look at its text, 50 ns for a
 * short one.
 */
function storedText(value: JsonValue, isExact: boolean, sent: SentArguments | undefined): string {
  if (sent === undefined) return stringifyJson(value)
  if (!isExact) return sent.text()
  const compact = stringifyJson(value)
  return movedKey.test(compact) ? compactText(sent.text()) : compact
}
