import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { chainHash, genesis } from '../../../server/event-log/sqlite/chain.js'
import { openForWriting } from '../../../server/event-log/sqlite/connection.js'
import { migrateLog } from '../../../server/event-log/sqlite/migrate-log.js'
import { migrate, migrationsDirectory, readMigrations } from '../../../server/event-log/sqlite/migrator.js'
import { verifyDatabase } from '../../../server/event-log/sqlite/verify-log.js'
import { built } from '../../helpers/built.ts'
import { addNotes, openTestLog } from '../../helpers/sqlite-logs.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

const migrations = readMigrations(migrationsDirectory())

/** What the events of these logs have in common. */
const blank = { session: 's', time: 1, call_id: null, surface_op: null, sources: null }

const tailHash = (db: Database.Database): Buffer =>
  db.prepare('SELECT hash FROM events ORDER BY position DESC LIMIT 1').pluck().get() as Buffer

/** A log as a server of this version left it: one session with three events. */
function logOfVersion(version: number): string {
  const directory = temporaryDirectory()
  const file = join(directory, 'toolwright.db')
  const db = openForWriting(file, 'full')
  migrate(db, file, migrations.slice(0, version))
  db.prepare(`INSERT INTO log (id, log_id, created_at) VALUES (1, 'the-log', 1)`).run()
  db.prepare(`INSERT INTO sessions (id, scope, created_at, turn, turn_open) VALUES ('s', 'global', 1, 1, 1)`).run()
  const insert = db.prepare(
    `INSERT INTO events (position, session, seq, type, time, data, prev_hash, hash) VALUES (?, 's', ?, 'note', 1, ?, ?, ?)`
  )
  let previous: Buffer = genesis
  for (let seq = 0; seq < 3; seq += 1) {
    const text = JSON.stringify(`note ${seq}`)
    const hash = chainHash(previous, { ...blank, position: seq, seq, type: 'note', text })
    insert.run(seq, seq, text, previous, hash)
    previous = hash
  }
  if (version >= 2) {
    db.exec(
      `INSERT INTO calls (session, call_id, name, args_hash, turn, step, state, accepted_at) VALUES ('s', 'c', 't', 'h', 1, 1, 'done', 1)`
    )
  }
  db.close()
  return directory
}

const older = migrations.slice(0, -1).map(({ version }) => version)

describe('C10: a log of an earlier version', () => {
  it.each(older)('%i: is brought up to date with all it holds, and a copy of it stands beside it', async (version) => {
    const directory = logOfVersion(version)
    const log = await openTestLog({ directory })
    expect(log).toMatchObject({ logId: 'the-log', head: 2, damagedSessions: new Set(), hasLostTail: false })
    await addNotes(log, 's', 1)
    expect((await log.read({ session: 's', after: -1, limit: 10 })).events.map(({ data }) => data)).toEqual([
      'note 0',
      'note 1',
      'note 2',
      'note 0'
    ])
    expect(await log.rows('calls', {})).toHaveLength(version >= 2 ? 1 : 0)
    await log.close()
    const copy = join(directory, `toolwright.db.version-${version}`)
    const db = new Database(copy, { readonly: true })
    expect(db.pragma('user_version', { simple: true })).toBe(version)
    expect(db.prepare('SELECT count(*) FROM events').pluck().get()).toBe(3)
    db.close()
    expect(migrateLog(directory)).toEqual({ from: migrations.length, to: migrations.length })
  })

  it('what holds in its sessions is read from their events, once: pruning them later widens nothing', async () => {
    const directory = logOfVersion(7)
    const file = join(directory, 'toolwright.db')
    const db = new Database(file)
    const says = (seq: number, type: string, data: string): void => {
      const [previous, columns] = [tailHash(db), { ...blank, position: seq, seq, type, text: data }]
      db.prepare(
        `INSERT INTO events (position, session, seq, type, time, data, prev_hash, hash) VALUES (?, 's', ?, ?, 1, ?, ?, ?)`
      ).run(seq, seq, type, data, previous, chainHash(previous, columns))
    }
    says(3, 'sandbox/mode', '{"mode":"danger-full-access"}')
    says(4, 'sandbox/mode', '{"mode":"read-only","source":"operator"}')
    says(5, 'approval/policy', '{"policy":"ask","source":"default"}')
    says(6, 'permission/preset', '{"preset":"read-only"}')
    says(7, 'note', '"after"')
    db.prepare(`INSERT INTO sessions (id, scope, created_at) VALUES ('silent', 'global', 1)`).run()
    db.close()
    const log = await openTestLog({ directory })
    await log.prune('s', 8)
    expect(await log.lastSeq('s', 'sandbox/mode')).toBe(-1)
    expect(await log.rows('sessions', {})).toMatchObject([
      { id: 's', sandbox_mode: 'read-only', approval_policy: 'ask', preset: 'read-only' },
      { id: 'silent', sandbox_mode: null, approval_policy: null, preset: null }
    ])
  })

  const hasStrace = spawnSync('strace', ['-e', 'trace=fsync', 'true'], { stdio: 'ignore' }).status === 0

  it.skipIf(!hasStrace)(
    'killed (-9) at any of its writes, the next start brings it up to date all the same',
    async () => {
      const module = fileURLToPath(new URL('../../../server/event-log/sqlite/migrate-log.js', import.meta.url))
      const program = `const { migrateLog } = await import(${JSON.stringify(module)}); migrateLog(process.argv[1])`
      let killed = 0
      for (let write = 1; ; write += 7) {
        const directory = logOfVersion(1)
        const inject = [
          '-f',
          '-qq',
          '-o',
          '/dev/null',
          '-e',
          'trace=pwrite64',
          '-e',
          `inject=pwrite64:signal=SIGKILL:when=${write}`
        ]
        const { signal, status } = spawnSync('strace', [
          ...inject,
          process.execPath,
          '--input-type=module',
          '-e',
          program,
          directory
        ])
        const isKilled = signal === 'SIGKILL' || status === 137
        expect([isKilled, status], `write ${write}`).toEqual(isKilled ? [true, status] : [false, 0])
        killed += isKilled ? 1 : 0
        const log = await openTestLog({ directory })
        expect(log, `write ${write}`).toMatchObject({ logId: 'the-log', head: 2, damagedSessions: new Set() })
        await addNotes(log, 's', 1)
        await log.close()
        expect(verifyDatabase(join(directory, 'toolwright.db'))).toMatchObject({ events: 4, damagedSessions: [] })
        if (!isKilled) break
      }
      expect(killed).toBeGreaterThan(3)
    },
    120_000
  )

  it('toolwright migrate does it without a server, and is refused while one runs', async () => {
    const directory = logOfVersion(2)
    const run = () =>
      execFileSync(process.execPath, [built.cli, 'migrate', '--home', directory], {
        encoding: 'utf8',
        stdio: 'pipe'
      })
    expect(run()).toContain(`from version 2 to ${migrations.length}`)
    expect(run()).toContain('already')
    await openTestLog({ directory })
    expect(run).toThrow(expect.objectContaining({ status: 78 }))
    expect(existsSync(join(directory, 'toolwright.db.version-2'))).toBe(true)
  }, 60_000)
})
