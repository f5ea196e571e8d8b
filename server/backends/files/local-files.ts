import { constants } from 'node:fs'
import { type FileHandle, open, readlink, stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { fileError } from './file-errors.ts'
import { FileError, type FileFacts, type Files, type ResolvedPath } from './files.ts'
import { canonicalPath, isWithin } from './resolve-path.ts'

/** A NUL in so many first bytes makes a file binary. */
const BINARY_PROBE_BYTES = 8192
const CHUNK_BYTES = 256 * 1024
/** The kernel's own files: read in the server's process they would show the server's secrets (backends.md §6.10). */
const systemRoots = ['/proc', '/sys', '/dev']

export interface LocalFilesOptions {
  /** Closed to reads, but for a workspace or output directory strictly inside. Canonical. */
  dataDirectory: string
  /** All that may be read, canonical; absent means everything but what is closed. */
  readRoots?: readonly string[]
}

/** The files of this machine, behind the fence of backends.md §6.10. */
export class LocalFiles implements Files {
  readonly #dataDirectory: string
  readonly #readRoots: readonly string[]

  constructor({ dataDirectory, readRoots = ['/'] }: LocalFilesOptions) {
    this.#dataDirectory = dataDirectory
    this.#readRoots = readRoots
  }

  async resolve(path: string, { cwd, openRoots = [] }: { cwd: string; openRoots?: readonly string[] }) {
    if (path.trim() === '') throw new FileError('FS_NOT_FOUND', 'the path is blank')
    if (path.includes('\0')) throw new FileError('FS_NOT_FOUND', 'no file has a NUL character in its name')
    const displayPath = resolve(cwd, path)
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
          throw new FileError('FS_NOT_TEXT', `${target.displayPath}: not text, its bytes are not valid UTF-8`)
        }
      }
      let position = 0
      for await (const chunk of chunksOf(file)) {
        assertNotAborted(target, signal)
        const probe = chunk.subarray(0, Math.max(0, BINARY_PROBE_BYTES - position))
        if (probe.includes(0)) throw new FileError('FS_NOT_TEXT', `${target.displayPath}: not text, it is binary`)
        position += chunk.length
        take(decode(chunk))
      }
      take(decode())
      return facts
    })
  }

  readBytes(target: ResolvedPath, maxBytes: number, signal?: AbortSignal) {
    return this.#withFile(target, signal, async (file, facts) => {
      const chunks: Buffer[] = []
      let total = facts.bytes
      if (total <= maxBytes) {
        total = 0
        for await (const chunk of chunksOf(file)) {
          assertNotAborted(target, signal)
          total += chunk.length
          if (total > maxBytes) break
          chunks.push(Buffer.from(chunk))
        }
      }
      if (total <= maxBytes) return { ...facts, data: new Uint8Array(Buffer.concat(chunks)) }
      throw new FileError('FS_TOO_LARGE', `${target.displayPath}: larger than ${maxBytes} bytes`)
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
      const version = [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(':')
      return await use(file, { version, bytes: Number(stats.size) })
    } catch (error) {
      throw fileError(displayPath, error)
    } finally {
      await file?.close()
    }
  }

  #assertReadable(path: string, { displayPath, openRoots }: ResolvedPath): void {
    const data = this.#dataDirectory
    const inOpenRoot = openRoots.some((root) => isWithin(path, root))
    // A workspace around the data directory must not open it; one that was made inside it is no secret to its own session.
    const inOwnData = openRoots.some((root) => root !== data && isWithin(root, data) && isWithin(path, root))
    const isClosed = systemRoots.some((root) => isWithin(path, root)) || (isWithin(path, data) && !inOwnData)
    if (!isClosed && (inOpenRoot || this.#readRoots.some((root) => isWithin(path, root)))) return
    throw new FileError('FS_PERMISSION_DENIED', `${displayPath}: outside of what may be read`)
  }
}

/** Pieces of the file in one buffer that is used again for the next piece. */
async function* chunksOf(file: FileHandle): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, null)
    if (bytesRead === 0) return
    yield buffer.subarray(0, bytesRead)
  }
}

function assertNotAborted({ displayPath }: ResolvedPath, signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new FileError('FS_ABORTED', `${displayPath}: the call was cancelled`)
}

const notRegular = (path: string) => new FileError('FS_NOT_REGULAR_FILE', `${path}: not a regular file`)
