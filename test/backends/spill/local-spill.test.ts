import { readFileSync, existsSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { LocalSpill } from '../../../server/backends/spill/local-spill.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

const open = () => new LocalSpill(join(temporaryDirectory(), 'spill'))
const save = (store: LocalSpill, suggestedName: string, text: string, sessionId = 'A') =>
  store.save({ owner: { sessionId }, source: { toolName: 't', callId: 'c', label: 'result' }, suggestedName, text })

it('keeps each text in a private file of its session (core.md §27.6) [core-27.6]', async () => {
  const store = open()
  const saved = await save(store, 'bash.txt', 'héllo')
  expect(saved.bytes).toBe(6)
  expect(saved.retrievalHint).not.toBe('')
  expect(readFileSync(saved.locator, 'utf8')).toBe('héllo')
  expect(statSync(saved.locator).mode & 0o777).toBe(0o600)
  expect(statSync(dirname(saved.locator)).mode & 0o777).toBe(0o700)
  expect(basename(dirname(saved.locator))).toMatch(/^session-[0-9a-f]{12}$/)
  expect(basename(saved.locator)).toMatch(/^[0-9a-f]{12}-bash\.txt$/)
  expect(dirname(saved.locator)).toBe(store.directoryOf('A'))
})

it.each([
  ['../../etc/passwd', '..~002F..~002Fetc~002Fpasswd'],
  ['.', '~002E'],
  ['..', '~002E~002E'],
  ['a~b\0\n', 'a~007Eb~0000~000A'],
  ['你😀', '~4F60~D83D~DE00'],
  ['', '']
])('writes the name %j as %j', async (name, escaped) => {
  const { locator } = await save(open(), name, 'x')
  expect(basename(locator).slice(13)).toBe(escaped)
})

it('takes names of any length, and the same name twice', async () => {
  const store = open()
  const saved = await Promise.all([
    save(store, '/'.repeat(5000), 'x'),
    save(store, 'same', '1'),
    save(store, 'same', '2')
  ])
  expect(new Set(saved.map(({ locator }) => locator)).size).toBe(3)
})

it("removes a session's texts and nothing else", async () => {
  const store = open()
  const [mine, other] = [await save(store, 'f', 'x', 'A'), await save(store, 'f', 'y', 'B')]
  await store.removeSession('A')
  await store.removeSession('never was')
  expect([existsSync(mine.locator), existsSync(other.locator)]).toEqual([false, true])
})
