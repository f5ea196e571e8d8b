import type { JsonObject, JsonValue } from '../../json/lossless.ts'
import type { Method, ParameterMapping, RequestMapping } from './request-mapping.ts'

/** Which operations of a document are meant. */
export interface Selection {
  readonly include?: readonly string[]
  readonly exclude?: readonly string[]
}

/** A document that describes an HTTP API, as far as it is known to be one. */
export interface ApiDocument {
  readonly root: JsonObject
  readonly version: '3.0' | '3.1'
}

/** One operation of a document, as it stands there. */
export interface Operation {
  /** `GET /pets/{petId}`. */
  readonly label: string
  readonly method: Method
  readonly path: string
  readonly id: string | undefined
  readonly given: JsonObject
  /** Those of the path, which the operation may replace. */
  readonly pathParameters: readonly JsonValue[]
  readonly servers: JsonValue | undefined
  /** Whether it asks for credentials; undefined: the document does not say. */
  readonly isSecured: boolean | undefined
}

/** What an operation takes: the schema of its arguments, and where each of them goes. */
export interface Arguments {
  readonly schema: JsonObject
  readonly parameters: readonly ParameterMapping[]
  readonly body: RequestMapping['body']
  readonly hasPatterns: boolean
}

/** A part of an operation, or why there is none. */
export type Part<T> = { readonly value: T } | { readonly leftOut: string }

/** What the thread is asked, of a document that it keeps. */
export type ImportRequest =
  | {
      readonly type: 'open'
      /** JSON that holds the document as `document`. */
      readonly text: string
      readonly selection: Selection
      readonly prefix: string
      /** Whether it matters where the document says its servers are. */
      readonly needsServers: boolean
    }
  /** One operation of those that are selected. */
  | { readonly type: 'operation'; readonly index: number }
  /** Its arguments without patterns. */
  | { readonly type: 'plain-arguments'; readonly index: number }

export interface OpenedDocument {
  readonly type: 'opened'
  readonly count: number
  readonly skipped: readonly { readonly operation: string; readonly reason: string }[]
}

export interface ReadOperation {
  readonly type: 'operation'
  readonly label: string
  readonly method: Method
  readonly path: string
  readonly name: string
  readonly description: string
  readonly isSecured: boolean | undefined
  /** The URL of its first server with the variables filled in; empty where nobody needs it. */
  readonly server: Part<string>
  readonly arguments: Part<Arguments>
  readonly answer: Part<JsonObject | undefined>
  /** What was left out of its arguments. */
  readonly notes: readonly string[]
}

export type ImportAnswer =
  | OpenedDocument
  | ReadOperation
  | { readonly type: 'plain-arguments'; readonly arguments: Part<Arguments> }
  /** Nothing of the document is imported, and why: a whole sentence. */
  | { readonly type: 'refused'; readonly message: string }
