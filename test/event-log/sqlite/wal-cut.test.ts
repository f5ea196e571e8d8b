import { copyFileSync, existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { tables } from '../../../server/event-log/event-log.ts'
import { logFiles } from '../../../server/event-log/sqlite/files.js'
import { openMark } from '../../../server/event-log/sqlite/mark.js'
import { openPageReader } from '../../../server/event-log/sqlite/page-reader.js'
import { openStore } from '../../../server/event-log/sqlite/store.js'
import { addSession, openTestLog } from '../../helpers/sqlite-logs.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const walHeaderBytes = 32
const frameBytes = 4096 + 24

/** Opens what a start would find, as the writer thread does, and says what is there. */
function openAsFound(directory: string) {
  const mark = openMark(logFiles(directory).mark)
  const store = openStore({ directory, synchronous: 'full', ballastBytes: 0, probeMs: 1000, tables }, mark.found)
  try {
    const { events, head } = openPageReader(store.db)({ session: 's', after: -1, limit: 500 })
    return { ...store, texts: events.map(({ seq, text }) => `${seq} ${text}`), head }
  } finally {
    store.db.close()
    mark.close()
  }
}

it('C9: a journal cut at any frame, or beside it, is a prefix of what was acknowledged, and a log behind its mark says so', async () => {
  const root = temporaryDirectory()
  const live = join(root, 'live')
  const log = await openTestLog({ directory: live })
  await addSession(log, 's', { turn_open: 1 })
  const acked: string[] = []
  for (let n = 0; n < 12; n += 1) {
    const text = JSON.stringify(`${n} ${'x'.repeat((n * 700) % 1900)}`)
    await log.append({ session: 's', events: [{ type: 'note', data: JSON.parse(text) }] })
    acked.push(`${n} ${text}`)
  }
  // The mark is written a second after the first of them; it must tell of the last.
  await until(
    () => existsSync(logFiles(live).mark) && readFileSync(logFiles(live).mark, 'latin1').includes('"position":11')
  )
  const files = ['database', 'wal', 'mark'] as const
  const image = join(root, 'image')
  mkdirSync(image)
  for (const name of files) copyFileSync(logFiles(live)[name], logFiles(image)[name])
  const walBytes = readFileSync(logFiles(image).wal).length
  const frames = Math.floor((walBytes - walHeaderBytes) / frameBytes)
  expect(frames).toBeGreaterThan(20)
  const cuts = Array.from({ length: frames + 1 }, (_, frame) => walHeaderBytes + frame * frameBytes)
  const lengths = new Set<number>()
  for (const cut of cuts.flatMap((at) => [at - 1, at, at + 1]).filter((at) => at <= walBytes)) {
    const directory = join(root, `cut-${cut}`)
    mkdirSync(directory)
    for (const name of files) copyFileSync(logFiles(image)[name], logFiles(directory)[name])
    truncateSync(logFiles(directory).wal, cut)
    const { texts, lostTail, logId, damaged } = openAsFound(directory)
    expect(texts, `cut at ${cut}`).toEqual(acked.slice(0, texts.length))
    expect([...damaged]).toEqual([])
    // Whoever saw more than there is now holds a cursor into another log.
    expect([lostTail, logId !== log.logId], `cut at ${cut}`).toEqual(Array(2).fill(texts.length < acked.length))
    lengths.add(texts.length)
  }
  expect([...lengths].toSorted((a, b) => a - b)).toEqual(Array.from({ length: acked.length + 1 }, (_, n) => n))
}, 60_000)

it('C8: a flipped bit anywhere in the journal gives a prefix too, never another event', async () => {
  const root = temporaryDirectory()
  const live = join(root, 'live')
  const log = await openTestLog({ directory: live })
  await addSession(log, 's')
  const acked: string[] = []
  for (let n = 0; n < 8; n += 1) {
    await log.append({ session: 's', events: [{ type: 'note', data: `note ${n}` }] })
    acked.push(`${n} "note ${n}"`)
  }
  const wal = readFileSync(logFiles(live).wal)
  for (let at = 7; at < wal.length; at += 1531) {
    const directory = join(root, `flip-${at}`)
    mkdirSync(directory)
    copyFileSync(logFiles(live).database, logFiles(directory).database)
    const flipped = Buffer.from(wal)
    flipped.writeUInt8(flipped.readUInt8(at) ^ 0x10, at)
    writeFileSync(logFiles(directory).wal, flipped)
    const { texts } = openAsFound(directory)
    expect(texts, `flip at ${at}`).toEqual(acked.slice(0, texts.length))
  }
}, 60_000)
