import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ControlFilter } from '../../../server/backends/terminals/host/control-filter.js'

/** The text of the input, written in these pieces, and where the last prompt mark stood in it. */
function filtered(pieces: readonly string[]): { text: string; markAt: number } {
  const filter = new ControlFilter()
  let text = ''
  let markAt = -1
  for (const piece of pieces) {
    const written = filter.write(piece)
    if (written.markAt >= 0) markAt = text.length + written.markAt
    text += written.text
  }
  return { text: text + filter.end(), markAt }
}

const cases: [name: string, input: string, text: string, markAt?: number][] = [
  ['colours', '\x1b[31mred\x1b[0m', 'red'],
  ['C40 line ends', '\x1b[31mred\x1b[0m\r\r\nover\rwrite\x07\r\n', 'red\nover\nwrite\n'],
  ['runs of carriage returns', 'a\r\r\rb\r\r\nc', 'a\nb\nc'],
  ['a carriage return at the end', 'a\r', 'a\n'],
  ['tabs stay, other controls go', 'a\tb\x00\x08\x0b\x0c\x7fc', 'a\tbc'],
  ['C1 controls, with what they open', 'a\u0084\u009b31mb\u009dtitle\u009cc\u0090x\u009cd', 'abcd'],
  ['OSC by BEL and by ST', 'a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c\x1b]8;;\x1b\\', 'abc'],
  ['OSC 52, DECRQSS, title report, CPR', '\x1b]52;c;cHdu\x07\x1bP$qm\x1b\\\x1b[21t\x1b[6nok', 'ok'],
  ['APC, PM and SOS', '\x1b_a\x1b\\\x1b^b\x1b\\\x1bXc\x1b\\d', 'd'],
  ['a BEL is no end but of an OSC', '\x1bPab\x07cd\x1b\\e', 'e'],
  ['short escapes and character sets', '\x1b7a\x1b(Bb\x1b=c\x1b#8d', 'abcd'],
  ['an aborted sequence', 'a\x1b[3\x18b\x1b]x\x1ac', 'abc'],
  ['ESC within a sequence begins anew', '\x1b[3\x1b[31mx\x1b]open\x1b[0my', 'xy'],
  ['line ends within a sequence', '\x1b[3\n1mx', '\nx'],
  ['a control string that never ends hides no later one', '\x1b]open and on\r\n\x1b]133;D;0\x07$ ', '$ ', 0],
  ['a prompt mark', 'out\r\n\x1b]133;D;7\x07$ ', 'out\n$ ', 4],
  ['a mark ended by ST', 'a\x1b]133;D\x1b\\b', 'ab', 1],
  ['other marks are none', '\x1b]133;A\x07\x1b]133;Done\x07\x1bP133;D;0\x1b\\x', 'x', -1],
  ['characters outside the BMP', '\x1b[1m🦊é你\x1b[0m', '🦊é你']
]

describe('the filter of control sequences (backends.md §5.2)', () => {
  it.each(cases)('%s', (_name, input, text, markAt = -1) => {
    expect(filtered([input])).toEqual({ text, markAt })
    for (let at = 0; at <= input.length; at++) {
      expect(filtered([input.slice(0, at), input.slice(at)]), `cut at ${at}`).toEqual({ text, markAt })
    }
    expect(filtered(input.split('')), 'unit by unit').toEqual({ text, markAt })
  })

  it('is the same however the input is cut, and lets no control character through', () => {
    const piece = fc.oneof(
      fc.constantFrom(
        '\x1b',
        '[',
        ']',
        '\x07',
        '\r',
        '\n',
        '\x1b\\',
        '\u009b',
        '\u009c',
        'P',
        ';',
        '133;D;0',
        '\x18',
        'm',
        '\x1b(',
        '\x7f'
      ),
      fc.string({ unit: 'binary', maxLength: 3 })
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), fc.array(fc.nat(120), { maxLength: 8 }), (parts, cuts) => {
        const input = parts.join('')
        const places = [0, ...cuts.map((cut) => Math.min(cut, input.length)).sort((a, b) => a - b), input.length]
        const whole = filtered([input])
        expect(filtered(places.slice(1).map((place, at) => input.slice(places[at], place)))).toEqual(whole)
        // oxlint-disable-next-line no-control-regex -- these are what it is about
        expect(whole.text).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/)
      }),
      { numRuns: 1_000 }
    )
  })

  it('keeps nothing of a control string of any length', () => {
    const filter = new ControlFilter()
    expect(filter.write('\x1b]0;').text).toBe('')
    for (let count = 0; count < 100; count++) expect(filter.write('x'.repeat(10_000)).text).toBe('')
    expect(filter.write('\x07after').text).toBe('after')
    expect(filter.write(`\x1b[${'1;'.repeat(1_000_000)}mz`).text).toBe('z')
  })
})
