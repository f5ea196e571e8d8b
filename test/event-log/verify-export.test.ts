import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { verifyExport } from '../../server/event-log/verify-export.ts'
import { compress } from '../../server/event-log/zstd.js'
import { addSession, openTestLog } from '../helpers/sqlite-logs.ts'

const header = (version = 0): string =>
  JSON.stringify({ type: 'session', version, id: 's', createdAt: 1, delegationDepth: 0 })
const event = (seq: number, type = 'step/start', more: object = {}): string =>
  JSON.stringify({ type, seq, time: 1, data: { turn: 1 }, ...more })
const file = (...lines: string[]): Buffer =>
  Buffer.from(compress(Buffer.from(lines.map((line) => `${line}\n`).join(''))))
const frames = (...parts: string[][]): Buffer => Buffer.concat(parts.map((lines) => file(...lines)))
const corrupt = expect.objectContaining({ code: 'EXPORT_CORRUPT', exitCode: 74 })

describe('an exported session', () => {
  it('is sound as the log writes it, whole or empty, and after its start was pruned', async () => {
    const log = await openTestLog()
    await addSession(log, 's')
    await addSession(log, 'empty')
    const events = Array.from({ length: 900 }, (_, n) => ({
      type: 'user/message',
      data: { n, text: randomBytes(1500).toString('hex') }
    }))
    await log.append({ session: 's', events })
    const exported = async (session: string) => {
      const parts: Uint8Array[] = []
      for await (const part of log.exportSession(session)) parts.push(part)
      return Buffer.concat(parts)
    }
    expect(verifyExport(await exported('s'))).toEqual({ session: 's', events: 900, isTorn: false })
    expect(verifyExport(await exported('empty'))).toEqual({ session: 'empty', events: 0, isTorn: false })
    await log.prune('s', 600)
    expect(verifyExport(await exported('s'))).toEqual({ session: 's', events: 300, isTorn: false })
  })

  it('backends.md §14.5: cut at any byte it is torn, and what is whole of it is kept; without a whole header it is corrupt', () => {
    const lines = Array.from({ length: 400 }, (_, n) =>
      event(n, 'user/message', { data: randomBytes(400).toString('hex') })
    )
    const whole = frames([header(), event(0)], lines.slice(1, 3), lines.slice(3))
    const first = file(header(), event(0)).length
    let kept = 0
    for (let cut = first; cut < whole.length; cut += 1009) {
      const report = verifyExport(whole.subarray(0, cut))
      expect(report.events).toBeGreaterThanOrEqual(kept)
      expect(report.isTorn).toBe(report.events < 400 && cut !== first)
      kept = report.events
    }
    // A whole block of the torn frame gives its lines.
    expect(kept).toBeGreaterThan(100)
    expect(kept).toBeLessThan(400)
    for (const cut of [0, 3, 9, first - 1])
      expect(() => verifyExport(whole.subarray(0, cut)), `${cut}`).toThrow(corrupt)
  })

  it('a bad or missing record is corruption when a turn ends at or after it, else a torn tail', () => {
    const end = event(4, 'turn/end')
    for (const bad of ['{"type":', 'null', '[]', event(3), event(1), JSON.stringify({ type: 'turn/end', seq: 2 })]) {
      expect(() => verifyExport(file(header(), event(0), event(1), bad, event(3), end)), bad).toThrow(corrupt)
      expect(verifyExport(file(header(), event(0), event(1), bad, event(3)))).toEqual({
        session: 's',
        events: 2,
        isTorn: true
      })
    }
    expect(() => verifyExport(file(header(), event(0), event(2, 'turn/end')))).toThrow(corrupt)
  })

  it('a damaged frame is corruption, wherever it stands', () => {
    const whole = frames([header(), event(0)], [event(1), event(2)])
    const first = file(header(), event(0)).length
    const flipped = Buffer.from(whole)
    flipped.writeUInt8(flipped.readUInt8(first) ^ 1, first)
    expect(() => verifyExport(flipped)).toThrow(corrupt)
    expect(() => verifyExport(Buffer.from('no such thing at all'))).toThrow(corrupt)
    expect(() => verifyExport(file(event(0)))).toThrow(corrupt)
  })

  it('C87: a newer version needs a newer build, an unknown type is refused, and one that may be ignored is not', () => {
    const unsupported = (what: RegExp) =>
      expect.objectContaining({ code: 'EXPORT_UNSUPPORTED', message: expect.stringMatching(what) })
    expect(() => verifyExport(file(header(1)))).toThrow(unsupported(/newer build/))
    expect(() => verifyExport(file(header(-1)))).toThrow(unsupported(/version -1/))
    expect(() => verifyExport(file(header(), event(0, 'alien/thing')))).toThrow(unsupported(/alien/))
    expect(() => verifyExport(file(header(), event(0, 'constructor')))).toThrow(unsupported(/constructor/))
    expect(verifyExport(file(header(), event(0, 'alien/thing', { ignorable: true })))).toMatchObject({
      events: 1,
      isTorn: false
    })
  })
})
