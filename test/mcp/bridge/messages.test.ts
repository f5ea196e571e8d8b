import { describe, expect, it } from 'vitest'
import { type LineFrame, LineFrames } from '../../../server/mcp/bridge/line-frames.ts'
import { MessageGauge } from '../../../server/mcp/bridge/message-gauge.ts'
import { NumberWatch } from '../../../server/mcp/bridge/number-watch.ts'
import { projection } from '../../../server/mcp/bridge/projection.ts'
import { StderrLog } from '../../../server/mcp/bridge/stderr-log.ts'

describe('messages by the line', () => {
  const read = (maxBytes: number, ...chunks: (string | Buffer)[]): LineFrame[] => {
    const frames: LineFrame[] = []
    const lines = new LineFrames(maxBytes, (frame) => frames.push(frame))
    for (const chunk of chunks) {
      let rest: Buffer = Buffer.from(chunk as string)
      while (rest.length > 0) rest = lines.take(rest)
    }
    return frames
  }

  it('are put together whatever the pieces, and characters are not cut', () => {
    const bytes = Buffer.from('{"a":"é😀"}\r\n\n{"b":1}\n{"half"')
    const expected = [
      { kind: 'message', message: { a: 'é😀' } },
      { kind: 'message', message: { b: 1 } }
    ]
    for (let size = 1; size <= bytes.length; size += 1) {
      const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
        bytes.subarray(at * size, (at + 1) * size)
      )
      expect(read(100, ...pieces)).toMatchObject(expected)
    }
  })

  it('that are too large or too deep name the request that they answer, wherever it stands', () => {
    const long = 'x'.repeat(2_000)
    const refused = (text: string): LineFrame =>
      read(1_000, ...[text.slice(0, 700), text.slice(700), '\n{"next":1}\n'])[0]!
    expect(refused(`{"jsonrpc":"2.0","id":7,"result":{"a":"${long}"}}`)).toEqual({
      kind: 'refused',
      reason: 'too-large',
      answered: 7
    })
    expect(refused(`{"result":{"id":1,"a":"${long}"},"jsonrpc":"2.0","id":8}`)).toMatchObject({ answered: 8 })
    expect(refused(`{"jsonrpc":"2.0","method":"x","params":{"id":3,"a":"${long}"}}`)).toMatchObject({
      answered: undefined
    })
    expect(read(1_000, `{"id":9,"result":${'['.repeat(300)}${']'.repeat(300)}}\n`)).toEqual([
      { kind: 'refused', reason: 'too-deep', answered: 9 }
    ])
    expect(read(10, `${long}\n`, '{"a":1}\n')).toMatchObject([
      { kind: 'refused', reason: 'too-large', answered: undefined },
      { kind: 'message', message: { a: 1 } }
    ])
  })

  it('that are none are noise', () => {
    expect(read(100, 'Ready!\n{"a":\n')).toEqual([
      { kind: 'noise', text: 'Ready!' },
      { kind: 'noise', text: '{"a":' }
    ])
  })
})

describe('the watch for numbers that would be rounded (F37)', () => {
  const isUnsafe = (text: string, size = text.length): boolean => {
    const watch = new NumberWatch()
    for (let at = 0; at < text.length; at += size) watch.add(Buffer.from(text.slice(at, at + size)))
    return watch.hasUnsafe
  }
  const answer = (member: string, value: string): string =>
    `data: {"jsonrpc":"2.0","id":1,"result":{"a\\"b":"}","${member}":${value}},"x":"9007199254740993"}\n\n`

  it.each([
    ['9007199254740993', true],
    ['9007199254740992', true],
    ['[{"a":-9007199254740993}]', true],
    [`[true,null,{"n":[1,2,1${'0'.repeat(500)}]}]`, true],
    ['9007199254740991', false],
    ['[1.5,-2,6.02e23,1.0E17,false]', false],
    ['[{"text":"9007199254740993 \\" 9007199254740993"}]', false]
  ])('%s: %s', (value, expected) => {
    for (const member of ['content', 'structuredContent', 'toolResult'])
      for (const size of [1, 7, 10_000]) expect(isUnsafe(answer(member, value), size)).toBe(expected)
    expect(isUnsafe(answer('_meta', value))).toBe(false)
  })

  it('goes on with the next message', () => {
    expect(isUnsafe(answer('_meta', '9007199254740993') + answer('content', '[9007199254740993]'))).toBe(true)
    expect(isUnsafe(`id: 9007199254740993\n${answer('content', '[1]')}`)).toBe(false)
  })
})

describe('the gauge of a response', () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

  it('counts each event of a stream by itself, and a plain body as one', () => {
    const events = new MessageGauge({ maxBytes: 20, isEventStream: true })
    for (let at = 0; at < 10; at += 1)
      expect(events.add(bytes(at % 2 === 0 ? 'data: 1234567\n\n' : 'data: 1234567\r\n\r\n'))).toBeUndefined()
    expect(events.hasEventId).toBe(false)
    events.add(bytes('id: 1\n'))
    expect(events.hasEventId).toBe(true)
    expect(events.add(bytes('data: 12345678901234567890'))).toBe('too-large')
    const body = new MessageGauge({ maxBytes: 20, isEventStream: false })
    expect([body.add(bytes('{"a":1}\n\n')), body.add(bytes('{"a":1}\n\n')), body.add(bytes('12345'))]).toEqual([
      undefined,
      undefined,
      'too-large'
    ])
  })

  it('counts the levels of what is no text', () => {
    const gauge = (): MessageGauge => new MessageGauge({ maxBytes: 10_000, isEventStream: false })
    expect(gauge().add(bytes(`{"a":${'['.repeat(256)}`))).toBe('too-deep')
    expect(gauge().add(bytes(`{"a":"${'['.repeat(257)}\\"${'['.repeat(257)}"`))).toBeUndefined()
    expect(gauge().add(bytes(`{"a":[${'[],'.repeat(300)}`))).toBeUndefined()
  })
})

describe('what is told', () => {
  it('of standard error: some lines a second, each cut', () => {
    const lines: string[] = []
    let now = 0
    const log = new StderrLog(
      (line) => lines.push(line),
      () => now
    )
    log.add(Buffer.from(`${'a\n'.repeat(100)}${'b'.repeat(5_000)}`))
    expect(lines).toHaveLength(20)
    now = 1_000
    log.add(Buffer.from(`${'c'.repeat(5_000)}\nlast words`))
    expect(lines).toHaveLength(21)
    expect(lines[20]).toHaveLength(1_000)
    expect(log.tail).toMatch(/c+\nlast words$/)
  })

  it('of a link: one line, in which nothing is hidden', () => {
    const link = { type: 'resource_link', name: 'a\u202Eb\nc', uri: 'file:///x\u001B[2J' }
    expect(projection([link])).toBe('[resource a�b�c: file:///x�[2J]')
    expect(projection([JSON.parse('{"__proto__":{"type":"text","text":"x"}}')])).toBe(
      '[a block of type unknown: not shown]'
    )
  })
})
