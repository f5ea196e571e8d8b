import { describe, expect, it } from 'vitest'
import { addSession, openTestLog } from '../../helpers/sqlite-logs.ts'

describe('group commit', () => {
  it('appends that wait at the same time share a transaction', async () => {
    const log = await openTestLog()
    await addSession(log, 's')
    const before = log.commits
    const all = await Promise.all(
      Array.from({ length: 1000 }, (_, n) => log.append({ session: 's', events: [{ type: 'note', data: n }] }))
    )
    expect(all.flat().map(({ seq, data }) => [seq, data])).toEqual(all.map((_, n) => [n, n]))
    expect(log.commits - before).toBe(1)
  })

  it('what comes while a batch is with the writer goes together in the next one', async () => {
    const log = await openTestLog()
    await addSession(log, 's')
    const before = log.commits
    const appender = async () => {
      for (let n = 0; n < 50; n += 1) await log.append({ session: 's', events: [{ type: 'note', data: n }] })
    }
    await Promise.all(Array.from({ length: 32 }, appender))
    const commits = log.commits - before
    expect(commits).toBeGreaterThanOrEqual(50)
    expect(commits).toBeLessThan(50 * 4)
    expect((await log.read({ session: 's', after: 1598, limit: 1 })).events).toHaveLength(1)
  })

  it('a lone append is a transaction of its own', async () => {
    const log = await openTestLog()
    await addSession(log, 's')
    const before = log.commits
    for (let n = 0; n < 5; n += 1) await log.append({ session: 's', events: [{ type: 'note', data: n }] })
    expect(log.commits - before).toBe(5)
  })

  it('large appends do not pile up in one transaction', async () => {
    const log = await openTestLog()
    await addSession(log, 's')
    const before = log.commits
    const text = 'x'.repeat(768 * 1024)
    await Promise.all([1, 2, 3, 4].map(() => log.append({ session: 's', events: [{ type: 'note', data: text }] })))
    expect(log.commits - before).toBe(2)
    expect((await log.read({ session: 's', after: 2, limit: 1 })).events[0]?.data).toBe(text)
  })
})
