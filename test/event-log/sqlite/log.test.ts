import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { openSqliteLog } from '../../../server/event-log/sqlite/log.ts'
import { eventLogContract } from '../contract.ts'

const root = mkdtempSync(join(tmpdir(), 'toolwright-log-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

eventLogContract('SQLite', () => openSqliteLog({ directory: mkdtempSync(join(root, 'log-')), ballastBytes: 0 }))
