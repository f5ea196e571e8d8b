import { CodedError } from '../../errors.ts'

/** A path made definite: `targetKey` is the same for every alias of one file, `displayPath` is how people named it. */
export interface ResolvedPath {
  targetKey: string
  displayPath: string
  /** Directories that may be read although they lie outside the readable roots: the workspace, the session's own outputs. */
  openRoots: readonly string[]
}

/** What is known of a regular file from one look at it. */
export interface FileFacts {
  /** Opaque; changes whenever the file does (backends.md §6.1). */
  version: string
  bytes: number
}

export type FileErrorCode =
  | 'FS_NOT_FOUND'
  | 'FS_NOT_REGULAR_FILE'
  | 'FS_NOT_TEXT'
  | 'FS_TOO_LARGE'
  | 'FS_PERMISSION_DENIED'
  | 'FS_ABORTED'
  | 'FS_IO_ERROR'

/** A refused or failed file operation (backends.md §6.1). */
export class FileError extends CodedError {
  declare readonly code: FileErrorCode
}

/**
 * Files as the tools see them (backends.md §6.1). Everything rejects with FileError. The version of a read is that of before the
 * read: a change meanwhile makes it stale, never wrongly fresh.
 */
export interface Files {
  /** `path` is relative to `cwd` or absolute. The file need not exist. `openRoots`: see ResolvedPath; `cwd` is always one. */
  resolve(path: string, options: { cwd: string; openRoots?: readonly string[] }): Promise<ResolvedPath>
  facts(target: ResolvedPath, signal?: AbortSignal): Promise<FileFacts>
  /** The whole of a text file, strict UTF-8. */
  readText(target: ResolvedPath, signal?: AbortSignal): Promise<FileFacts & { text: string }>
  /** The same in pieces, for files of any size: `take` is called with each, in order. */
  streamText(target: ResolvedPath, take: (text: string) => void, signal?: AbortSignal): Promise<FileFacts>
  /** FS_TOO_LARGE beyond `maxBytes`, also when the file grows meanwhile. */
  readBytes(target: ResolvedPath, maxBytes: number, signal?: AbortSignal): Promise<FileFacts & { data: Uint8Array }>
}

declare module '../../services.ts' {
  interface Services {
    files: Files
  }
}
