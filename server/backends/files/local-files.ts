import { constants } from 'node:fs'
import { type FileHandle, open, readdir, readlink, stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { type Change, changeFile, notRegular } from './change-file.ts'
import { BINARY_PROBE_BYTES, chunksOf, decodeText, readUpTo, versionOf } from './file-bytes.ts'
import { fileError } from './file-errors.ts'
import {
  type ChangeOptions,
  type DirectoryEntry,
  type FileChange,
  FileError,
  type FileFacts,
  type Files,
  type ResolvedPath,
  type TextEdit
} from './files.ts'
import { applyEdit, foldLineEndings } from './replace-text.ts'
import { canonicalPath, isWithin } from './resolve-path.ts'
import { Turns } from './turns.ts'

/** PATH_MAX. The system itself would look up a longer one name by name, and find out at the end. */
const MAX_PATH_BYTES = 4096
/** From here on a change does not answer with what was before (backends.md §6.1). */
const BIG_FILE_BYTES = 10 * 1024 * 1024
/** An edit holds the whole file in memory, several times over, and works on the main loop. */
const MAX_EDIT_BYTES = 16 * 1024 * 1024
/** The kernel's own files: read in the server's process they would show the server's secrets (backends.md §6.10). */
const systemRoots = ['/proc', '/sys', '/dev']

export interface LocalFilesOptions {
  /** Closed to reads, but for a workspace or output directory strictly inside. Canonical. */
  dataDirectory: string
  /** Closed in the same way: files and directories, canonical. */
  closedPaths?: readonly string[]
  /** All that may be read, canonical; absent means everything but what is closed. */
  readRoots?: readonly string[]
  /**
   * The fence around changes (backends.md §6.10): true, or the sandbox mode that forbids this agent to change that file. Asked in
   * the change's own turn, before anything is made. The path is canonical, and the change happens there or nowhere. Absent, the
   * fence of reads alone stands.
   */
  mayWrite?: (
    targetKey: string,
    agent: object | undefined,
    granted: string | undefined
  ) => true | string | Promise<true | string>
}

/** The files of this machine, behind the fence of backends.md §6.10. */
export class LocalFiles implements Files {
  readonly #closedPaths: readonly string[]
  readonly #readRoots: readonly string[]
  readonly #mayWrite: NonNullable<LocalFilesOptions['mayWrite']>
  readonly #turns = new Turns()

  constructor({ dataDirectory, closedPaths = [], readRoots = ['/'], mayWrite = () => true }: LocalFilesOptions) {
    this.#closedPaths = [dataDirectory, ...closedPaths]
    this.#readRoots = readRoots
    this.#mayWrite = mayWrite
  }

  async resolve(path: string, { cwd, openRoots = [] }: { cwd: string; openRoots?: readonly string[] }) {
    if (path.trim() === '') throw new FileError('FS_NOT_FOUND', 'the path is blank')
    if (path.includes('\0')) throw new FileError('FS_NOT_FOUND', 'no file has a NUL character in its name')
    const displayPath = resolve(cwd, path)
    if (Buffer.byteLength(displayPath) >= MAX_PATH_BYTES) {
      throw new FileError('FS_NOT_FOUND', `the path is longer than any that a file can have (${MAX_PATH_BYTES} bytes)`)
    }
    try {
      return { displayPath, targetKey: await canonicalPath(displayPath), openRoots: [cwd, ...openRoots] }
    } catch (error) {
      throw fileError(displayPath, error)
    }
  }

  facts(target: ResolvedPath, signal?: AbortSignal): Promise<FileFacts> {
    return this.#withFile(target, signal, (_file, facts) => Promise.resolve(facts))
  }

  async readText(target: ResolvedPath, signal?: AbortSignal): Promise<FileFacts & { text: string }> {
    const pieces: string[] = []
    const facts = await this.streamText(target, (piece) => pieces.push(piece), signal)
    return { ...facts, text: pieces.join('') }
  }

  streamText(target: ResolvedPath, take: (text: string) => void, signal?: AbortSignal): Promise<FileFacts> {
    return this.#withFile(target, signal, async (file, facts) => {
      const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
      const decode = (bytes?: Uint8Array) => {
        try {
          return bytes === undefined ? decoder.decode() : decoder.decode(bytes, { stream: true })
        } catch {
          throw notText(target, 'its bytes are not valid UTF-8')
        }
      }
      let position = 0
      for await (const chunk of chunksOf(file)) {
        assertNotAborted(target, signal)
        const probe = chunk.subarray(0, Math.max(0, BINARY_PROBE_BYTES - position))
        if (probe.includes(0)) throw notText(target, 'it is binary')
        position += chunk.length
        take(decode(chunk))
      }
      take(decode())
      return facts
    })
  }

  readBytes(target: ResolvedPath, maxBytes: number, signal?: AbortSignal) {
    return this.#withFile(target, signal, async (file, facts) => {
      const data = facts.bytes > maxBytes ? undefined : await readUpTo(file, maxBytes, signal)
      if (data === undefined) throw tooLarge(target, maxBytes)
      return { ...facts, data: new Uint8Array(data) }
    })
  }

  async listDir(target: ResolvedPath, signal?: AbortSignal): Promise<DirectoryEntry[]> {
    const { targetKey, displayPath } = target
    assertNotAborted(target, signal)
    this.#assertReadable(targetKey, target)
    let directory: FileHandle | undefined
    try {
      if (!(await stat(targetKey)).isDirectory()) {
        throw new FileError('FS_NOT_DIRECTORY', `${displayPath}: not a directory`)
      }
      directory = await open(targetKey, constants.O_RDONLY | constants.O_DIRECTORY)
      const path = `/proc/self/fd/${directory.fd}`
      this.#assertReadable(await readlink(path), target)
      const entries = await readdir(path, { withFileTypes: true })
      return entries
        .map((entry): DirectoryEntry => {
          const kind = entry.isFile() ? 'file' : entry.isDirectory() ? 'directory' : 'other'
          return { name: entry.name, kind }
        })
        .sort((one, other) => (one.name < other.name ? -1 : 1))
    } catch (error) {
      throw fileError(displayPath, error)
    } finally {
      await directory?.close()
    }
  }

  writeText(target: ResolvedPath, content: string, options: ChangeOptions = {}): Promise<FileChange> {
    return this.#change(target, options, {
      needsPrior: false,
      async make(read) {
        const isBig = Buffer.byteLength(content) >= BIG_FILE_BYTES
        const bytes = isBig ? undefined : await read?.(BIG_FILE_BYTES - 1)
        const isBinary = bytes?.subarray(0, BINARY_PROBE_BYTES).includes(0) ?? true
        const before = bytes === undefined || isBinary ? undefined : decodeText(bytes)
        return { text: content, result: comparison(before, content) }
      }
    })
  }

  editText(target: ResolvedPath, edit: TextEdit, options: ChangeOptions = {}): Promise<FileChange> {
    return this.#change(target, options, {
      needsPrior: true,
      async make(read) {
        const bytes = await read?.(MAX_EDIT_BYTES)
        if (bytes === undefined) throw tooLarge(target, MAX_EDIT_BYTES)
        if (bytes.includes(0)) throw notText(target, 'it is binary')
        const before = decodeText(bytes)
        if (before === undefined) throw notText(target, 'its bytes are not valid UTF-8')
        const text = applyEdit(before, edit, target.displayPath)
        const isBig = Math.max(bytes.length, Buffer.byteLength(text)) >= BIG_FILE_BYTES
        return { text, result: comparison(isBig ? undefined : before, text) }
      }
    })
  }

  /** One after the other for each file, behind both fences. */
  #change(
    target: ResolvedPath,
    options: ChangeOptions,
    change: Change<{ before: string | null; after: string }>
  ): Promise<FileChange> {
    const { targetKey } = target
    return this.#turns.take(targetKey, async () => {
      assertNotAborted(target, options.signal)
      // A change answers with what was there before.
      this.#assertReadable(targetKey, target)
      try {
        const verdict = await this.#mayWrite(targetKey, options.agent, options.granted)
        if (verdict !== true) throw sandboxDenied(target, verdict)
        const made = await changeFile(target, change, options)
        options.onChanged?.(made.version)
        return made
      } catch (error) {
        throw failure(target, error, options.signal)
      }
    })
  }

  /** Opens a regular file inside the fence, and closes it whatever happens. */
  async #withFile<T>(
    target: ResolvedPath,
    signal: AbortSignal | undefined,
    use: (file: FileHandle, facts: FileFacts) => Promise<T>
  ): Promise<T> {
    const { targetKey, displayPath } = target
    assertNotAborted(target, signal)
    this.#assertReadable(targetKey, target)
    let file: FileHandle | undefined
    try {
      // Opening alone may have an effect on a device, so it is looked at first; the open file is looked at again, for it may be
      // another one by now. Without O_NONBLOCK a FIFO would hold a thread of the pool for ever.
      if (!(await stat(targetKey)).isFile()) throw notRegular(displayPath)
      file = await open(targetKey, constants.O_RDONLY | constants.O_NONBLOCK)
      const stats = await file.stat({ bigint: true })
      if (!stats.isFile()) throw notRegular(displayPath)
      // A directory on the way may have become a link meanwhile: what counts is where the open file is (reliability.md S11).
      this.#assertReadable(await readlink(`/proc/self/fd/${file.fd}`), target)
      return await use(file, { version: versionOf(stats), bytes: Number(stats.size) })
    } catch (error) {
      throw failure(target, error, signal)
    } finally {
      await file?.close()
    }
  }

  isReadable(path: string, { openRoots }: ResolvedPath): boolean {
    const inOpenRoot = openRoots.some((root) => isWithin(path, root))
    // A workspace around the data directory must not open it; one that was made inside it is no secret to its own session.
    const isOwn = (closed: string) =>
      openRoots.some((root) => root !== closed && isWithin(root, closed) && isWithin(path, root))
    const isClosed =
      systemRoots.some((root) => isWithin(path, root)) ||
      this.#closedPaths.some((closed) => isWithin(path, closed) && !isOwn(closed))
    return !isClosed && (inOpenRoot || this.#readRoots.some((root) => isWithin(path, root)))
  }

  #assertReadable(path: string, target: ResolvedPath): void {
    if (this.isReadable(path, target)) return
    throw new FileError('FS_PERMISSION_DENIED', `${target.displayPath}: outside of what may be read`)
  }
}

const comparison = (before: string | undefined, after: string) => ({
  before: before === undefined ? null : foldLineEndings(before),
  after: foldLineEndings(after)
})

function assertNotAborted(target: ResolvedPath, signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw failure(target, signal.reason, signal)
}

/** The reason of a signal may be anything: an aborted operation is known by its signal. */
const failure = ({ displayPath }: ResolvedPath, error: unknown, signal: AbortSignal | undefined): FileError =>
  signal?.aborted === true
    ? new FileError('FS_ABORTED', `${displayPath}: the call was cancelled`, { cause: error })
    : fileError(displayPath, error)

const notText = ({ displayPath }: ResolvedPath, reason: string) =>
  new FileError('FS_NOT_TEXT', `${displayPath}: not text, ${reason}`)

const tooLarge = ({ displayPath }: ResolvedPath, maxBytes: number) =>
  new FileError('FS_TOO_LARGE', `${displayPath}: larger than ${maxBytes} bytes`)

const sandboxDenied = ({ displayPath }: ResolvedPath, mode: string) =>
  new FileError('FS_SANDBOX_DENIED', `${displayPath}: not changed\n[sandbox: file access denied under ${mode} mode]`)
