import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, readlink } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { systemCodeOf } from './file-errors.ts'
import { FileError } from './files.ts'

const FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/**
 * A directory held open. Whatever becomes of the path to it, `entry` leads into this very directory: a link that takes the place
 * of a directory on the way, which a process of the session could put there between a look and a write, leads nowhere else.
 */
export class HeldDirectory {
  readonly handle: FileHandle

  private constructor(handle: FileHandle) {
    this.handle = handle
  }

  static async #hold(path: string, check: (directory: HeldDirectory) => Promise<void>): Promise<HeldDirectory> {
    const directory = new HeldDirectory(await open(path, FLAGS))
    try {
      await check(directory)
      return directory
    } catch (error) {
      await directory.close()
      throw error
    }
  }

  /** The directory at a canonical path, made with all its parents if `create`. A link on the way is FS_STALE_VERSION. */
  static async open(path: string, create: boolean): Promise<HeldDirectory> {
    try {
      return await HeldDirectory.#hold(path, async (directory) => {
        if ((await readlink(directory.#path)) !== path) throw movedAway(path)
      })
    } catch (error) {
      if (!create || systemCodeOf(error) !== 'ENOENT') throw error
    }
    const parent = await HeldDirectory.open(dirname(path), true)
    try {
      return await parent.makeDirectory(basename(path))
    } finally {
      await parent.close()
    }
  }

  /** A directory in this one, made unless it is there. With a mode it is made for sure, and stays the server's own. */
  async makeDirectory(name: string, mode?: number): Promise<HeldDirectory> {
    let isNew = true
    await mkdir(this.entry(name), mode).catch((error: unknown) => {
      if (systemCodeOf(error) !== 'EEXIST' || mode !== undefined) throw error
      isNew = false
    })
    return HeldDirectory.#hold(this.entry(name), async ({ handle }) => {
      if (isNew && mode === undefined) await this.giveAway(handle)
    })
  }

  /** A path to an entry of this directory. */
  entry(name: string): string {
    return `${this.#path}/${name}`
  }

  /**
   * What a server that runs as root makes belongs to whom the directory belongs: commands that run as another user in that
   * directory could not so much as read it otherwise.
   */
  async giveAway(made: FileHandle): Promise<void> {
    if (process.getuid?.() !== 0) return
    const { uid, gid } = await this.handle.stat()
    if (uid !== 0) await made.chown(uid, gid)
  }

  close(): Promise<void> {
    return this.handle.close()
  }

  get #path(): string {
    return `/proc/self/fd/${this.handle.fd}`
  }
}

/** The path is no longer the one that was resolved. */
export const movedAway = (path: string): FileError =>
  new FileError('FS_STALE_VERSION', `${path}: the path has changed meanwhile and leads elsewhere`)
