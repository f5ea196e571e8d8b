import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { addNotes, addSession, openTestLog } from '../../helpers/sqlite-logs.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

describe('a backup', () => {
  it('C11: made while events come, it is a whole log with all that was acknowledged before it', async () => {
    const log = await openTestLog()
    await addSession(log, 's', { turn_open: 1 })
    for (let n = 0; n < 20; n += 1) await addNotes(log, 's', 200, (each) => `${each} ${'x'.repeat(500)}`)
    const copy = join(temporaryDirectory(), 'copy')
    mkdirSync(copy)
    const before = log.head
    const copying = log.backup(join(copy, 'toolwright.db'))
    const isCopying = { now: true }
    void copying.finally(() => (isCopying.now = false))
    while (isCopying.now) await addNotes(log, 's', 1)
    await copying
    expect(log.head).toBeGreaterThan(before)
    const restored = await openTestLog({ directory: copy })
    expect(restored).toMatchObject({ logId: log.logId, hasLostTail: false, damagedSessions: new Set() })
    expect(restored.head).toBeGreaterThanOrEqual(before)
    await expect(log.backup('/proc/nothing/here.db')).rejects.toThrow()
    await addNotes(log, 's', 1)
  })
})
