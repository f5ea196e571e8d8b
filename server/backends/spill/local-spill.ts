import { createHash, randomBytes } from 'node:crypto'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SpilledText, SpillRequest, SpillStore } from './spill.ts'

/** File names may not be longer than 255 bytes; the rest is for the random part. */
const MAX_NAME_LENGTH = 200

/** One private directory a session, one private file a text (backends.md §13, core.md §27.6). */
export class LocalSpill implements SpillStore {
  readonly #root: string

  /** `root` is absolute; it is made when first used. */
  constructor(root: string) {
    this.#root = root
  }

  async save({ owner, suggestedName, text }: SpillRequest): Promise<SpilledText> {
    const directory = this.directoryOf(owner.sessionId)
    await mkdir(directory, { recursive: true, mode: 0o700 })
    const name = escapeName(suggestedName).slice(0, MAX_NAME_LENGTH)
    const locator = join(directory, `${randomBytes(6).toString('hex')}-${name}`)
    try {
      await writeFile(locator, text, { flag: 'wx', mode: 0o600 })
    } catch (error) {
      // Half a text is worth less than none.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') await rm(locator, { force: true })
      throw error
    }
    return { locator, bytes: Buffer.byteLength(text), retrievalHint: 'read it with the read tool' }
  }

  directoryOf(sessionId: string): string {
    const hash = createHash('sha256').update(sessionId).digest('hex').slice(0, 12)
    return join(this.#root, `session-${hash}`)
  }

  async removeSession(sessionId: string): Promise<void> {
    await rm(this.directoryOf(sessionId), { recursive: true, force: true })
  }
}

/** A file name out of any string, different for different strings: a suggested name may come from anywhere. */
function escapeName(name: string): string {
  if (name === '.' || name === '..') return name.replaceAll('.', '~002E')
  return name.replaceAll(
    /[^A-Za-z0-9._-]/g,
    (unit) => `~${unit.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`
  )
}
