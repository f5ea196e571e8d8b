import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  OutputLedger,
  jsonStringBytes,
  jsonStringPrefix,
  maxLogEntries
} from '../../server/code-runtime/output-ledger.js'
import { maxValues } from '../../server/code-runtime/json-text.js'
import { jsonString } from '../helpers/json-arbitraries.ts'

const bytes = (value: unknown) => Buffer.byteLength(JSON.stringify(value))

describe('the cost of a string', () => {
  it('is that of its JSON text in UTF-8 (§10)', () => {
    expect(bytes(['a\n"', '\u0001', '\ud800', '😀'])).toBe(34)
    fc.assert(
      fc.property(jsonString, (text) => {
        expect(jsonStringBytes(text)).toBe(bytes(text))
      })
    )
  })

  it('is counted no further than the limit', () => {
    const counted = jsonStringBytes('x'.repeat(1_000_000), 10)
    expect(counted).toBeGreaterThan(10)
    expect(counted).toBeLessThan(100)
  })

  it('has a longest prefix that ends between code points', () => {
    fc.assert(
      fc.property(jsonString, fc.integer({ min: 2, max: 60 }), (text, limit) => {
        const prefix = jsonStringPrefix(text, limit)
        expect(text.startsWith(prefix)).toBe(true)
        expect(bytes(prefix)).toBeLessThanOrEqual(limit)
        const next = String.fromCodePoint(text.codePointAt(prefix.length) ?? 0)
        if (prefix !== text) expect(bytes(prefix + next)).toBeGreaterThan(limit)
      })
    )
  })
})

describe('the ledger (§10)', () => {
  const settled = (limit: number, logs: string[], outcome: Parameters<OutputLedger['settle']>[0]) => {
    const ledger = new OutputLedger(limit)
    for (const text of logs) ledger.addLog(text)
    return ledger.settle(outcome)
  }

  it('C054 passes exactly at the limit', () => {
    const value = { type: 'value', text: '[1,2,3]' } as const
    expect(settled(17, ['héllo'], value)).toEqual({ logs: ['héllo'], value: '[1,2,3]' })
    expect(settled(16, ['héllo'], value).error?.kind).toBe('output-limit')
    expect(settled(7, [], { type: 'value', text: '"€"' }).value).toBe('"€"')
    expect(settled(6, [], { type: 'value', text: '"€"' }).error?.kind).toBe('output-limit')
    expect(settled(4, [], { type: 'value', text: undefined })).toEqual({ logs: [], value: undefined })
  })

  it('holds whatever it hands on below the limit, and logs as a prefix', () => {
    const outcome = fc.oneof(
      fc.constant({ type: 'value', text: '"some value"' } as const),
      jsonString.map((message) => ({ type: 'failure', kind: 'exception', message }) as const)
    )
    fc.assert(
      fc.property(
        fc.array(jsonString, { maxLength: 6 }),
        outcome,
        fc.integer({ min: 4, max: 120 }),
        (logs, end, limit) => {
          const { logs: kept, value, error } = settled(limit, logs, end)
          const said = error === undefined ? Buffer.byteLength(value ?? '') : bytes(error.message)
          expect(bytes(kept) + said).toBeLessThanOrEqual(limit)
          const whole = kept.slice(0, -1)
          expect(logs.slice(0, whole.length)).toEqual(whole)
          if (kept.length > 0) expect(logs[whole.length]?.startsWith(kept.at(-1)!)).toBe(true)
          const exact = bytes(logs) + (end.type === 'value' ? end.text.length : bytes(end.message))
          expect(error?.kind === 'output-limit').toBe(exact > limit)
        }
      )
    )
  })

  it('puts what went past the console after the rest, one entry a stream', () => {
    const ledger = new OutputLedger(100)
    ledger.addRaw('stderr', 'e')
    ledger.addLog('')
    ledger.addRaw('stdout', 'o1')
    ledger.addRaw('stdout', 'o2')
    expect(ledger.settle({ type: 'value', text: undefined }).logs).toEqual(['', 'o1o2', 'e'])
  })

  it('puts together what comes a byte at a time', () => {
    const ledger = new OutputLedger(100_000)
    for (let count = 0; count < 10_000; count += 1) ledger.addRaw('stdout', String(count % 10))
    expect(ledger.settle({ type: 'value', text: undefined }).logs).toEqual(['0123456789'.repeat(1_000)])
  })

  it('refuses a value of more parts than the server can look at', () => {
    const { value, error } = settled(1e6, ['l'], { type: 'value', text: `[${'0,'.repeat(maxValues)}0]` })
    expect([value, error?.kind, error?.message]).toEqual([
      undefined,
      'output-limit',
      expect.stringContaining(`${maxValues} values`)
    ])
    expect(settled(1e6, [], { type: 'value', text: `[${'0,'.repeat(maxValues - 1)}0]` }).error).toBeUndefined()
  })

  it('charges a number by what JSON makes of it', () => {
    expect(settled(20, [], { type: 'value', text: '[1e20]' }).error?.kind).toBe('output-limit')
    expect(settled(25, [], { type: 'value', text: '[1e20]' }).value).toBe('[1e20]')
  })

  it('takes no more than a million entries', () => {
    const ledger = new OutputLedger(1e9)
    for (let count = 0; count <= maxLogEntries; count += 1) ledger.addLog('')
    expect(ledger.isOver).toBe(true)
    const { logs, error } = ledger.settle({ type: 'value', text: undefined })
    expect([logs.length, error?.kind]).toEqual([maxLogEntries, 'output-limit'])
  })

  it('takes no more than a million pieces past the console', () => {
    const ledger = new OutputLedger(1e9)
    for (let count = 0; count < maxLogEntries; count += 1) ledger.addRaw('stdout', 'x')
    expect(ledger.isOver).toBe(false)
    ledger.addRaw('stderr', 'x')
    const { logs, error } = ledger.settle({ type: 'value', text: undefined })
    expect([logs.length, error?.kind, error?.message]).toEqual([2, 'output-limit', expect.stringContaining('1000000')])
  })
})
