import { describe, expect, it } from 'vitest'
import { eventText, matchesType, storedEvent } from '../../server/events/stored-event.ts'

const fields = { type: 'note', session: 's', scope: 'g', seq: 0, position: 4, time: 7 }

describe('a stored event', () => {
  it('parses its data once, however long it is, and is frozen', () => {
    for (const text of ['{"a":[1]}', `{"a":[1]${' '.repeat(10_000)}}`]) {
      const event = storedEvent(fields, text)
      expect(event.data).toBe(event.data)
      expect(event).toEqual({ ...fields, data: { a: [1] } })
      expect({ ...event }).toEqual({ ...fields, data: { a: [1] } })
      expect(Object.isFrozen((event.data as { a: unknown }).a)).toBe(true)
      expect(() => Object.assign(event, { seq: 1 })).toThrow(TypeError)
    }
    expect(() => eventText({ ...storedEvent(fields, '1') })).toThrow(TypeError)
  })

  it('is one JSON text, with its view where it has one, and keys that a merge would swallow', () => {
    const event = storedEvent({ ...fields, surfaceOp: 'append', sourceEventSeqs: [0] }, '{"__proto__":1}')
    expect(JSON.parse(eventText(event, { view: '{"title":"x"}' }))).toEqual({
      ...fields,
      surfaceOp: 'append',
      sourceEventSeqs: [0],
      data: JSON.parse('{"__proto__":1}'),
      view: { title: 'x' }
    })
    expect(eventText(event)).toContain('"__proto__":1')
  })

  it('matches exact types and prefixes', () => {
    expect(matchesType('tool/call', undefined)).toBe(true)
    expect(matchesType('tool/call', [])).toBe(false)
    expect(matchesType('tool/call', ['tool'])).toBe(false)
    expect(matchesType('tool/call', ['x', 'tool/*'])).toBe(true)
    expect(matchesType('tool/call', ['*'])).toBe(true)
    expect(matchesType('toolbox', ['tool/*'])).toBe(false)
    expect(matchesType('a*b', ['a*b'])).toBe(true)
  })
})
