import { type BigIntStats, constants } from 'node:fs'
import { access, type FileHandle, lstat, open } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { systemCodeOf } from './file-errors.ts'
import { readUpTo, versionOf } from './file-bytes.ts'
import { type ChangeGuard, type ChangeOptions, FileError, type ResolvedPath } from './files.ts'
import { HeldDirectory, movedAway } from './held-directory.ts'
import { putFile } from './put-file.ts'

const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW
const loneSurrogate = /\p{Surrogate}/u

export interface Change<T> {
  /**
   * What the file shall hold. `read` gives what it holds, undefined beyond so many bytes; it is undefined for a file that is not
   * there. May throw, and then nothing is done.
   */
  make: (read: ((maxBytes: number) => Promise<Buffer | undefined>) | undefined) => Promise<{ text: string; result: T }>
  /** An edit depends on what the file holds: it is for a file that is there, and has not changed since it was read. */
  needsPrior: boolean
}

/**
 * One change of one file, in its turn (backends.md §6.1): holds the directory, looks at the file, checks the guard, asks for
 * the new text, looks again, puts it in place. The path is the canonical one and nothing else: links that appear on it meanwhile
 * are refused, so no check of the path can be got around. Rejects with FileError or system errors.
 */
export async function changeFile<T>(
  { targetKey, displayPath }: ResolvedPath,
  { make, needsPrior }: Change<T>,
  { guard: guardOf, signal }: ChangeOptions
): Promise<T & { operation: 'create' | 'update'; version: string }> {
  const guard = guardOf?.()
  const mayCreate = !needsPrior && guard?.kind !== 'replaceIfVersion'
  const directory = await HeldDirectory.open(dirname(targetKey), mayCreate).catch((error: unknown) => {
    throw !mayCreate && systemCodeOf(error) === 'ENOENT' ? isGone(displayPath) : error
  })
  const name = basename(targetKey)
  let file: FileHandle | undefined
  try {
    const seen = await lookAt(directory, name, displayPath)
    file = seen?.file
    const stats = seen?.stats
    assertGuard(displayPath, { guard, mayCreate, stats })
    const { text, result } = await make(seen && ((maxBytes) => readUpTo(seen.file, maxBytes, signal)))
    if (loneSurrogate.test(text)) {
      throw new FileError(
        'FS_NOT_TEXT',
        `${displayPath}: half of a surrogate pair would be left, which no file can hold`
      )
    }
    const version = await putFile(directory, name, Buffer.from(text), {
      like: stats,
      overwrite: guard?.kind !== 'createIfAbsent',
      signal,
      async beforePublish() {
        signal?.throwIfAborted()
        if (stats === undefined || (guard === undefined && !needsPrior)) return
        const now = await lstat(directory.entry(name), { bigint: true }).catch(() => undefined)
        if (now === undefined || versionOf(now) !== versionOf(stats)) throw isStale(displayPath)
      }
    }).catch((error: unknown) => {
      throw systemCodeOf(error) === 'EEXIST' ? isThere(displayPath) : error
    })
    return { ...result, operation: stats === undefined ? 'create' : 'update', version }
  } catch (error) {
    await directory.takeBack()
    throw error
  } finally {
    await file?.close()
    await directory.close()
  }
}

/** Undefined for a name that is not there. What is no regular file is not opened: that alone may have an effect on a device. */
async function lookAt(
  directory: HeldDirectory,
  name: string,
  displayPath: string
): Promise<{ file: FileHandle; stats: BigIntStats } | undefined> {
  const path = directory.entry(name)
  const seen = await lstat(path).catch((error: unknown) => {
    if (systemCodeOf(error) !== 'ENOENT') throw error
    return undefined
  })
  if (seen === undefined) return undefined
  if (seen.isSymbolicLink()) throw movedAway(displayPath)
  if (!seen.isFile()) throw notRegular(displayPath)
  const file = await open(path, FLAGS)
  try {
    const stats = await file.stat({ bigint: true })
    if (!stats.isFile()) throw notRegular(displayPath)
    // Renaming asks for no permission of the file that it replaces; one that is closed to writing stays as it is.
    await access(`/proc/self/fd/${file.fd}`, constants.W_OK)
    return { file, stats }
  } catch (error) {
    await file.close()
    throw error
  }
}

interface Guarded {
  guard: ChangeGuard | undefined
  mayCreate: boolean
  stats: BigIntStats | undefined
}

function assertGuard(displayPath: string, { guard, mayCreate, stats }: Guarded): void {
  if (stats === undefined) {
    if (!mayCreate) throw isGone(displayPath)
  } else if (guard?.kind === 'createIfAbsent') {
    throw isThere(displayPath)
  } else if (guard !== undefined && guard.version !== versionOf(stats)) {
    throw isStale(displayPath)
  }
}

/** FS_NOT_REGULAR_FILE. */
export const notRegular = (path: string): FileError =>
  new FileError('FS_NOT_REGULAR_FILE', `${path}: not a regular file`)
const isThere = (path: string) => new FileError('FS_NOT_OBSERVED', `${path}: exists and has not been read`)
const isStale = (path: string) => new FileError('FS_STALE_VERSION', `${path}: has changed since it was read`)
const isGone = (path: string) => new FileError('FS_STALE_VERSION', `${path}: is not there any more`)
