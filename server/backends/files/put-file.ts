import { randomBytes } from 'node:crypto'
import { type BigIntStats, constants } from 'node:fs'
import { type FileHandle, link, open, rename, rmdir, unlink } from 'node:fs/promises'
import { systemCodeOf } from './file-errors.ts'
import { versionOf } from './file-bytes.ts'
import type { HeldDirectory } from './held-directory.ts'

const FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

export interface PutOptions {
  /** What the file replaces and is like in mode and owner; absent for a new file, which is private. */
  like?: BigIntStats | undefined
  /** Whether a file that is there by then is replaced; EEXIST otherwise. */
  overwrite: boolean
  /** The last chance to think better of it: what it throws is thrown, and nothing has happened. */
  beforePublish: () => Promise<void>
  signal?: AbortSignal | undefined
}

/**
 * Puts a file in place at once and whole (backends.md §6.1): written and synced in a private directory beside the target, then
 * renamed over it, or linked, which never overwrites. Answers its version. Rejects with system errors; then nothing is left.
 */
export async function putFile(
  directory: HeldDirectory,
  name: string,
  data: Uint8Array,
  { like, overwrite, beforePublish, signal }: PutOptions
): Promise<string> {
  const stagingName = `.toolwright-${randomBytes(8).toString('hex')}`
  const staging = await directory.makeDirectory(stagingName, 0o700)
  const staged = staging.entry('file')
  try {
    const file = await open(staged, FLAGS, 0o600)
    try {
      await file.writeFile(data, signal === undefined ? {} : { signal })
      await (like === undefined ? directory.giveAway(file) : makeAlike(file, like))
      await file.sync()
      const written = await file.stat({ bigint: true })
      await beforePublish()
      if (overwrite) await rename(staged, directory.entry(name))
      else await link(staged, directory.entry(name))
      if (!overwrite) await unlink(staged)
      // The file is in place by now: that a power cut may still undo it where directories cannot be synced is no failure.
      await directory.handle.sync().catch(() => {})
      // Moving changes the ctime. All else is from before: what somebody else writes from then on makes this version stale.
      const { ctimeNs } = await file.stat({ bigint: true })
      return versionOf({ ...written, ctimeNs })
    } finally {
      await file.close()
    }
  } finally {
    await unlink(staged).catch(() => {})
    await staging.close()
    await rmdir(directory.entry(stagingName)).catch(() => {})
  }
}

async function makeAlike(file: FileHandle, { uid, gid, mode }: BigIntStats): Promise<void> {
  const own = await file.stat({ bigint: true })
  let isAlike = own.uid === uid && own.gid === gid
  if (!isAlike) {
    isAlike = await file.chown(Number(uid), Number(gid)).then(
      () => true,
      (error: unknown) => {
        if (systemCodeOf(error) !== 'EPERM') throw error
        return false
      }
    )
  }
  // Another owner's set-user-id bit would be ours from then on.
  await file.chmod(Number(mode) & (isAlike ? 0o7777 : 0o777))
}
