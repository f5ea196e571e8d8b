import { CodedError } from '../../errors.ts'
import type { Confined } from '../sandbox/sandbox.ts'

export type SearchErrorCode =
  | 'SEARCH_INVALID_PATTERN'
  | 'SEARCH_FAILED'
  | 'SEARCH_RAW_OUTPUT_OVERFLOW'
  | 'SEARCH_ABORTED'

/** A refused or failed search (backends.md §6.8). */
export class SearchError extends CodedError {
  declare readonly code: SearchErrorCode
}

/** Where a search looks. Both paths are absolute and canonical. */
export interface SearchPlace {
  /** What patterns with a slash are anchored at. */
  cwd: string
  /** What is searched: this directory and all below it, without following symbolic links. */
  root: string
  /** Ends the search with SEARCH_ABORTED. */
  signal: AbortSignal
  /**
   * The command line of a search that is confined. Paths are walked by name: where commands may exchange directories for links meanwhile,
   * what is not to be read must not be there for the one who walks.
   */
  confine?: (argv: readonly [string, ...string[]]) => Confined
}

/** A matching line, without its line break. What is not UTF-8 is told by a placeholder. */
export interface SearchMatch {
  path: string
  lineNumber: number
  line: string
}

/** Finds files and lines (backends.md §6.7, §6.8). Nothing found is an empty list; everything rejects with SearchError. */
export interface Search {
  /**
   * Absolute paths of the files below a directory whose names match a glob, oldest change first. Hidden and ignored files count,
   * what version control keeps for itself does not.
   */
  files(glob: string, place: SearchPlace): Promise<string[]>
  /**
   * Lines that match a regular expression, by path and line; `root` may be a file. Hidden, ignored and binary files are passed
   * over, but for ignored ones that `include`, a glob, names.
   */
  matches(pattern: string, place: SearchPlace & { include?: string }): Promise<SearchMatch[]>
}

declare module '../../services.ts' {
  interface Services {
    /** `search` itself is a method of Fastify. */
    fileSearch: Search
  }
}
