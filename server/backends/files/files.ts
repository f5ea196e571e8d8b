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

/** What must hold for a change to be made; it fails with FS_NOT_OBSERVED and FS_STALE_VERSION otherwise (backends.md §6.1). */
export type ChangeGuard = { kind: 'createIfAbsent' } | { kind: 'replaceIfVersion'; version: string }

/** Changes of one file are made one after the other; both functions are called in the change's own turn. */
export interface ChangeOptions {
  /** May throw, and then nothing is done. Without a guard a change is unconditional. */
  guard?: () => ChangeGuard
  /** Told the file's new version before the next change of the file begins. */
  onChanged?: (version: string) => void
  /** For whom: a fence may ask. */
  agent?: object | undefined
  /** The sandbox mode that holds for this change instead of the agent's own, for the fence to know. */
  granted?: string
  /** Heard until the moment at which the file is replaced: a change is made or it is not. */
  signal?: AbortSignal
}

/** A change that was made. The texts have LF for CRLF, and are for people and programs to compare. */
export interface FileChange {
  operation: 'create' | 'update'
  version: string
  /** Null for a file that was not there, was not text, or where either side has 10 MiB or more. */
  before: string | null
  after: string
}

/** What to do to the text of a file (backends.md §6.1, §6.9). */
export type TextEdit =
  /** The one occurrence, or with `all` each. CRLF and LF are the same, unless `exact`. */
  | { replace: string; with: string; all?: boolean; exact?: boolean }
  /** As it is, behind so many newlines. */
  | { insert: string; afterLine: number }

export interface DirectoryEntry {
  name: string
  kind: 'file' | 'directory' | 'other'
}

export type FileErrorCode =
  | 'FS_NOT_FOUND'
  | 'FS_NOT_REGULAR_FILE'
  | 'FS_NOT_DIRECTORY'
  | 'FS_NOT_TEXT'
  | 'FS_TOO_LARGE'
  | 'FS_NOT_OBSERVED'
  | 'FS_STALE_VERSION'
  | 'FS_EDIT_NOT_FOUND'
  | 'FS_AMBIGUOUS_EDIT'
  | 'FS_SANDBOX_DENIED'
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
  /** Whether a canonical path may be read by who resolved `target`: for what finds files by itself (backends.md §6.10). */
  isReadable(path: string, target: ResolvedPath): boolean
  facts(target: ResolvedPath, signal?: AbortSignal): Promise<FileFacts>
  /** The whole of a text file, strict UTF-8. */
  readText(target: ResolvedPath, signal?: AbortSignal): Promise<FileFacts & { text: string }>
  /** The same in pieces, for files of any size: `take` is called with each, in order. */
  streamText(target: ResolvedPath, take: (text: string) => void, signal?: AbortSignal): Promise<FileFacts>
  /** FS_TOO_LARGE beyond `maxBytes`, also when the file grows meanwhile. */
  readBytes(target: ResolvedPath, maxBytes: number, signal?: AbortSignal): Promise<FileFacts & { data: Uint8Array }>
  /** One level, by name; nothing is opened. FS_NOT_DIRECTORY for a file. */
  listDir(target: ResolvedPath, signal?: AbortSignal): Promise<DirectoryEntry[]>
  /** All of a file anew, with the directories it needs; never half of it. A new file is private, an old one keeps its mode. */
  writeText(target: ResolvedPath, content: string, options?: ChangeOptions): Promise<FileChange>
  /** Part of a file's text; every byte around it stays. A missing file is FS_STALE_VERSION, and staleness comes before all else. */
  editText(target: ResolvedPath, edit: TextEdit, options?: ChangeOptions): Promise<FileChange>
}

declare module '../../services.ts' {
  interface Services {
    files: Files
  }
}
