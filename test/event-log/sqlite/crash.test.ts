import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openSqliteLog, type SqliteLog } from '../../../server/event-log/sqlite/log.ts'
import { type Acked, appendUntilKilled } from '../../helpers/append-forever.ts'
import { openTestLog } from '../../helpers/sqlite-logs.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

/** The acknowledged events that are not in the log as they were. */
async function lost(log: SqliteLog, acked: readonly Acked[]): Promise<Acked[]> {
  const kept = new Map<string, number>()
  const lastSeqs = new Map<string, number>()
  for (let after: number | undefined = -1; after !== undefined;) {
    const page = await log.read({ after, limit: 500 })
    for (const { session, seq, data } of page.events) {
      expect(seq).toBe((lastSeqs.get(session) ?? -1) + 1)
      lastSeqs.set(session, seq)
      kept.set(`${session} ${seq}`, (data as string).length)
    }
    after = page.next
  }
  return acked.filter(({ session, seq, length }) => kept.get(`${session} ${seq}`) !== length)
}

describe('after a crash', () => {
  it('C1: everything acknowledged is there after a kill -9, again and again in the same directory', async () => {
    const directory = temporaryDirectory()
    const acked: Acked[] = []
    for (const count of [1, 200, 1500]) {
      acked.push(...(await appendUntilKilled(directory, count)))
      const log = await openSqliteLog({ directory, ballastBytes: 0 })
      try {
        expect(await lost(log, acked)).toEqual([])
        expect(log).toMatchObject({ hasLostTail: false, damagedSessions: new Set() })
      } finally {
        await log.close()
      }
    }
    expect(acked.length).toBeGreaterThanOrEqual(1701)
  }, 60_000)

  const powerCut = async (synchronous: 'full' | 'normal') => {
    const root = temporaryDirectory()
    const [directory, shadow, shim] = [join(root, 'data'), join(root, 'shadow'), join(root, 'powercut.so')]
    for (const made of [directory, shadow]) mkdirSync(made)
    const source = fileURLToPath(new URL('../../fixtures/powercut.c', import.meta.url))
    execFileSync('cc', ['-shared', '-fPIC', '-O1', '-w', '-o', shim, source, '-ldl'])
    const env = { LD_PRELOAD: shim, PC_DIR: directory, PC_SHADOW: shadow }
    const acked = await appendUntilKilled(directory, 400, { synchronous, env })
    // What a machine that lost its power would find: the bytes that were synced, and no others.
    expect(existsSync(join(shadow, 'toolwright.db'))).toBe(true)
    return { acked, log: await openTestLog({ directory: shadow }) }
  }

  it('C2: nothing acknowledged is lost in a power cut with synchronous=full', async () => {
    const { acked, log } = await powerCut('full')
    expect(acked.length).toBeGreaterThanOrEqual(400)
    expect(await lost(log, acked)).toEqual([])
    expect(log.hasLostTail).toBe(false)
  }, 60_000)

  it('C13: with synchronous=normal the same test sees the loss', async () => {
    const { acked, log } = await powerCut('normal')
    expect((await lost(log, acked)).length).toBeGreaterThan(0)
  }, 60_000)
})
