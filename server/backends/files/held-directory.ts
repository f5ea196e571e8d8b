import { constants, rmdirSync } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, readlink } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { systemCodeOf } from './file-errors.ts'
import { FileError } from './files.ts'

const FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
/** How many hold the directory of a path, or are about to: what one made, another may have come to use. */
const holders = new Map<string, number>()

/**
 * A directory held open. Whatever becomes of the path to it, `entry` leads into this very directory: a link that takes the place
 * of a directory on the way, which a process of the session could put there between a look and a write, leads nowhere else.
 */
export class HeldDirectory {
  readonly handle: FileHandle
  /** How many directories `open` made for it: itself and the nearest above it. */
  #made = 0
  /** What it was opened by. */
  #name: string | undefined

  private constructor(handle: FileHandle) {
    this.handle = handle
  }

  static async #hold(
    path: string,
    check: (directory: HeldDirectory) => Promise<void> = () => Promise.resolve()
  ): Promise<HeldDirectory> {
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
    holders.set(path, (holders.get(path) ?? 0) + 1)
    try {
      const directory = await HeldDirectory.#openOrMake(path, create)
      directory.#name = path
      return directory
    } catch (error) {
      release(path)
      throw error
    }
  }

  static async #openOrMake(path: string, create: boolean): Promise<HeldDirectory> {
    try {
      return await HeldDirectory.#hold(path, async (directory) => {
        if ((await readlink(directory.#path)) !== path) throw movedAway(path)
      })
    } catch (error) {
      if (!create || systemCodeOf(error) !== 'ENOENT') throw error
    }
    const parent = await HeldDirectory.open(dirname(path), true)
    try {
      const made = await parent.makeDirectory(basename(path))
      if (made.#made > 0) made.#made += parent.#made
      return made
    } catch (error) {
      await parent.takeBack()
      throw error
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
    try {
      return await HeldDirectory.#hold(this.entry(name), async (directory) => {
        if (!isNew || mode !== undefined) return
        directory.#made = 1
        await this.giveAway(directory.handle)
      })
    } catch (error) {
      if (isNew) removeEmpty(this.entry(name))
      throw error
    }
  }

  /** Removes what was made to open it, from the bottom up, as far as nothing is in it and nobody else holds it. */
  takeBack(): Promise<void> {
    return HeldDirectory.#takeBack(this)
  }

  static async #takeBack(bottom: HeldDirectory): Promise<void> {
    let at = bottom
    let own = 1
    let path = bottom.#name ?? ''
    try {
      for (let left = bottom.#made; left > 0; left--) {
        // By the directory itself: on the path there may be links by now.
        const parent = await HeldDirectory.#hold(at.entry('..'))
        const entry = parent.entry(basename(path))
        const isThere = await at.#isAt(entry).catch(() => false)
        if (at !== bottom) await at.close()
        at = parent
        if (!isThere || (holders.get(path) ?? 0) > own || !removeEmpty(entry)) return
        own = 0
        path = dirname(path)
      }
    } catch {
      // It stays: the failure that led here matters more.
    } finally {
      if (at !== bottom) await at.close()
    }
  }

  async #isAt(entry: string): Promise<boolean> {
    const [here, there] = await Promise.all([this.handle.stat({ bigint: true }), lstat(entry, { bigint: true })])
    return here.dev === there.dev && here.ino === there.ino
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
    if (this.#name !== undefined) release(this.#name)
    this.#name = undefined
    return this.handle.close()
  }

  get #path(): string {
    return `/proc/self/fd/${this.handle.fd}`
  }
}

function release(path: string): void {
  const left = (holders.get(path) ?? 0) - 1
  if (left > 0) holders.set(path, left)
  else holders.delete(path)
}

/** At once, so that between a look at the holders and this nobody becomes one. */
function removeEmpty(path: string): boolean {
  try {
    rmdirSync(path)
    return true
  } catch {
    return false
  }
}

/** The path is no longer the one that was resolved. */
export const movedAway = (path: string): FileError =>
  new FileError('FS_STALE_VERSION', `${path}: the path has changed meanwhile and leads elsewhere`)
