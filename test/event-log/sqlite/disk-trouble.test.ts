import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it, onTestFinished } from 'vitest'
import { StoreUnavailableError } from '../../../server/event-log/event-log.ts'
import { addNotes, addSession, openTestLog } from '../../helpers/sqlite-logs.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

/** A file system of 64 MiB of its own; mounting needs root. */
function smallDisk(): string {
  const directory = temporaryDirectory()
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', directory])
  onTestFinished(() => void execFileSync('umount', ['-l', directory]))
  return directory
}

const isRoot = process.getuid?.() === 0

describe('a full disk', () => {
  it.skipIf(!isRoot)(
    'C6: refuses, goes on reading, writes closing appends from the reserve, and recovers by itself',
    async () => {
      const disk = smallDisk()
      const states: string[] = []
      const log = await openTestLog({ directory: join(disk, 'log'), ballastBytes: 16 * 1024 * 1024, probeMs: 20 })
      log.onState((state) => states.push(state))
      await addSession(log, 's')
      writeFileSync(join(disk, 'filler'), Buffer.alloc(36 * 1024 * 1024))
      const random = () => randomBytes(225_000).toString('base64')
      let acked = 0
      const fill = async () => {
        for (;;) {
          await log.append({ session: 's', events: [{ type: 'note', data: random() }] })
          acked += 1
        }
      }
      const failed = await Promise.allSettled([fill(), fill(), fill()])
      for (const each of failed)
        expect(each).toMatchObject({ status: 'rejected', reason: { name: 'StoreUnavailableError' } })
      expect(log.state).toBe('unavailable')
      expect(existsSync(join(disk, 'log', 'toolwright.ballast'))).toBe(false)
      await expect(addNotes(log, 's', 1)).rejects.toThrow(StoreUnavailableError)

      const closing = { session: 's', events: [{ type: 'result', data: random() }], closing: true }
      expect(await log.append(closing)).toMatchObject([{ seq: acked }])
      const head = (await log.read({ session: 's', after: Number.MAX_SAFE_INTEGER, limit: 1 })).head
      expect(head).toBe(acked)

      rmSync(join(disk, 'filler'))
      await until(() => log.state === 'open')
      expect(states).toEqual(['unavailable', 'open'])
      await addNotes(log, 's', 1)
      expect(existsSync(join(disk, 'log', 'toolwright.ballast'))).toBe(true)
      await log.close()
      const again = await openTestLog({ directory: join(disk, 'log') })
      expect(again).toMatchObject({ head: acked + 1, hasLostTail: false })
    }
  )

  it.skipIf(!isRoot)('a start without room for the reserve serves reads and waits for space', async () => {
    const disk = smallDisk()
    const directory = join(disk, 'log')
    const first = await openTestLog({ directory })
    await addSession(first, 's')
    await first.close()
    writeFileSync(join(disk, 'filler'), Buffer.alloc(50 * 1024 * 1024))
    const log = await openTestLog({ directory, ballastBytes: 16 * 1024 * 1024, probeMs: 20 })
    await until(() => log.state === 'unavailable')
    expect(await log.rows('sessions', {})).toHaveLength(1)
    rmSync(join(disk, 'filler'))
    await until(() => log.state === 'open')
    await addNotes(log, 's', 1)
  })
})

const strace = (() => {
  try {
    execFileSync('strace', ['-e', 'trace=fsync', 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

describe('a failing disk', () => {
  const program = fileURLToPath(new URL('../../fixtures/programs/append-through-trouble.ts', import.meta.url))

  it.skipIf(!strace).each([
    ['fsync:error=EIO:when=60', 'one failed fsync'],
    ['pwrite64:error=EIO:when=200', 'one failed write']
  ])(
    'C5: %s: nothing of the failed commit is acknowledged, and what is acknowledged stays',
    async (inject) => {
      const directory = temporaryDirectory()
      const child = spawn(
        'strace',
        ['-f', '-qq', '-o', '/dev/null', '-e', `trace=${inject.split(':')[0]}`, '-e', `inject=${inject}`].concat([
          process.execPath,
          '--import',
          'tsx',
          program,
          directory
        ]),
        { stdio: ['ignore', 'pipe', 'inherit'] }
      )
      const lines: string[] = []
      const exited = once(child, 'exit')
      for await (const line of createInterface({ input: child.stdout })) lines.push(line)
      await exited
      expect(lines).toContain('state unavailable')
      expect(lines.some((line) => line.startsWith('refused'))).toBe(true)
      // Reopened and verified, or given up for good.
      expect(lines.at(-1)).toMatch(/^(done|fatal)/)
      const acked = lines.flatMap((line) => (line.startsWith('ack ') ? [Number(line.slice(4))] : []))
      const log = await openTestLog({ directory })
      const kept = (await log.read({ session: 's', after: -1, limit: 500 })).events.map(({ data }) => data)
      expect(kept).toEqual([...new Set(kept)])
      expect(acked.filter((n) => !kept.includes(n))).toEqual([])
      expect(log).toMatchObject({ hasLostTail: false, damagedSessions: new Set() })
    },
    60_000
  )
})

describe('a long reader', () => {
  it('F73: neither loses writes nor makes them fail, and an operator is warned of the journal that cannot shrink', async () => {
    const directory = temporaryDirectory()
    const warnings: string[] = []
    const log = await openTestLog({ directory, onWarning: (message) => warnings.push(message) })
    await addSession(log, 's')
    const reader = new Database(join(directory, 'toolwright.db'), { readonly: true })
    onTestFinished(() => void reader.close())
    reader.exec('BEGIN')
    reader.prepare('SELECT count(*) FROM events').get()
    const text = randomBytes(750_000).toString('base64')
    for (let n = 0; n < 100; n += 1) await log.append({ session: 's', events: [{ type: 'note', data: `${n}${text}` }] })
    await until(() => warnings.length > 0)
    expect(warnings[0]).toMatch(/journal/)
    expect((await log.read({ session: 's', after: 98, limit: 1 })).events).toHaveLength(1)
    reader.exec('COMMIT')
  }, 60_000)
})
