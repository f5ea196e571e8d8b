import { createHash } from 'node:crypto'
import { chmod, chown, mkdir, rmdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Subprocesses } from '../subprocess/subprocess.ts'

export interface PrivateWorkspacesOptions {
  subprocesses: Subprocesses
  /** Canonical. */
  dataDirectory: string
  /** Whose the workspaces are, where commands run as another user than the server. */
  uid?: number | undefined
}

/** A directory for each session that has none of its own, under the data directory (reliability.md, decisions). */
export class PrivateWorkspaces {
  readonly #options: PrivateWorkspacesOptions
  readonly #root: string
  #opened: Promise<void> | undefined

  constructor(options: PrivateWorkspacesOptions) {
    this.#options = options
    this.#root = join(options.dataDirectory, 'workspaces')
  }

  /** The canonical directory, made empty when the session has none yet. `undefined` is whoever has no session. */
  async directoryOf(session: string | undefined): Promise<string> {
    this.#opened ??= this.#openRoot().catch((error: unknown) => {
      // A full disk, say: the next one tries again.
      this.#opened = undefined
      throw error
    })
    await this.#opened
    const directory = this.#directory(session)
    let isNew = true
    await mkdir(directory, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
      isNew = false
    })
    const { uid } = this.#options
    if (uid === undefined) return directory
    try {
      // Also of one that is there: the server may have died between the two.
      await chown(directory, uid, uid)
      return directory
    } catch (error) {
      if (isNew) await rmdir(directory).catch(() => {})
      throw error
    }
  }

  /** Removes a session's directory with all that is in it. */
  async removeSession(session: string): Promise<void> {
    // Its files are of somebody who may be putting links in the way: rm goes by open directories, never by names.
    const { done } = this.#options.subprocesses.spawn({
      argv: ['rm', '-rf', '--one-file-system', '--', this.#directory(session)],
      cwd: '/',
      stdin: 'ignore',
      stdout: { maxBytes: 1_024 },
      stderr: { maxBytes: 1_024 },
      graceMs: 1_000
    })
    const { exitCode } = await done
    if (exitCode !== 0) throw new Error(`the workspace ${this.#directory(session)} was not removed`)
  }

  #directory(session: string | undefined): string {
    const hash = createHash('sha256')
      .update(session ?? '')
      .digest('hex')
      .slice(0, 32)
    return join(this.#root, session === undefined ? 'no-session' : `session-${hash}`)
  }

  /** The user of the commands must come through, and nobody else: its group may pass, not look. */
  async #openRoot(): Promise<void> {
    await mkdir(this.#root, { recursive: true, mode: 0o700 })
    const { uid } = this.#options
    if (uid === undefined) return
    for (const path of [dirname(this.#root), this.#root]) {
      const { mode, uid: owner } = await stat(path)
      // One that a group has something in stays as it is.
      if ((mode & 0o067) !== 0) continue
      await chown(path, owner, uid)
      await chmod(path, (mode & 0o7777) | 0o010)
    }
  }
}
