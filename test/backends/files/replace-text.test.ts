import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { FileError } from '../../../server/backends/files/files.ts'
import { applyEdit } from '../../../server/backends/files/replace-text.ts'

const edit = (text: string, replace: string, to: string, more: { all?: boolean; exact?: boolean } = {}): string =>
  applyEdit(text, { replace, with: to, ...more }, '/f')

const codeOf = (run: () => unknown): string => {
  try {
    run()
    return 'none'
  } catch (error) {
    return (error as FileError).code
  }
}

describe('matching', () => {
  it('C51 asks for one occurrence, and tells the lines of several', () => {
    expect(edit('a b c', 'b', 'x')).toBe('a x c')
    expect(codeOf(() => edit('a', 'b', 'x'))).toBe('FS_EDIT_NOT_FOUND')
    expect(() => edit('b\na\nb\r\nb', 'b', 'x')).toThrow(/3 times, on lines 1, 3, 4;/)
    expect(codeOf(() => edit('b b', 'b', 'x'))).toBe('FS_AMBIGUOUS_EDIT')
    expect(edit('b b', 'b', 'x', { all: true })).toBe('x x')
  })

  it('lists no more lines than can be read', () => {
    expect(() => edit('b\n'.repeat(50), 'b', 'x')).toThrow(/50 times, on lines 1, 2, [^…]*, 20, …;/)
  })

  it('counts from left to right without overlaps', () => {
    expect(edit('aaa', 'aa', 'x')).toBe('xa')
    expect(edit('aaaa', 'aa', 'x', { all: true })).toBe('xx')
    expect(codeOf(() => edit('aaaa', 'aa', 'x'))).toBe('FS_AMBIGUOUS_EDIT')
  })

  it('finds nothing in no text: an empty needle is nowhere', () => {
    expect(codeOf(() => edit('abc', '', 'x', { all: true }))).toBe('FS_EDIT_NOT_FOUND')
  })

  it('makes no more than can be held', () => {
    const text = 'a'.repeat(1_000_001)
    expect(codeOf(() => edit(text, 'a', 'b', { all: true }))).toBe('FS_TOO_LARGE')
    expect(codeOf(() => edit(text.slice(1), 'a', 'b'.repeat(17), { all: true }))).toBe('FS_TOO_LARGE')
    expect(edit(text.slice(1), 'a', 'bb', { all: true })).toHaveLength(2_000_000)
  })

  it('is literal: no patterns, no $ in replacements, no Unicode normalisation', () => {
    expect(edit('a.c abc', 'a.c', '$& $1 $$')).toBe('$& $1 $$ abc')
    expect(codeOf(() => edit('cafe\u0301', 'caf\u00e9', 'x'))).toBe('FS_EDIT_NOT_FOUND')
    expect(edit('caf\u00e9 cafe\u0301', 'cafe\u0301', 'x')).toBe('caf\u00e9 x')
  })

  it('keeps a byte order mark', () => {
    expect(edit('\ufeffa\r\nb', 'a\nb', 'a\nc')).toBe('\ufeffa\r\nc')
  })
})

describe('line endings', () => {
  it.each([
    ['takes those of the text it replaces', 'a\nb\r\nc\r\nd\n', 'b\nc\n', 'b\nx\nc\n', 'a\nb\r\nx\r\nc\r\nd\n'],
    [
      'takes LF where LF is replaced, in a file of CRLF',
      'a\r\nb\r\nc\nd\ne\r\n',
      'c\nd\n',
      'y\nz\n',
      'a\r\nb\r\ny\nz\ne\r\n'
    ],
    ['takes those of the file where none is replaced', 'a\r\nb\r\nc', 'b', 'x\ny', 'a\r\nx\r\ny\r\nc'],
    ['takes LF on a tie', 'a\r\nb\nc', 'b', 'x\ny', 'a\r\nx\ny\nc'],
    ['matches CRLF however it is written', 'a\r\nb', 'a\r\nb', 'a\r\nc', 'a\r\nc'],
    ['keeps what both sides begin and end with', 'a\r\nb\nc\r\n', 'a\nb\nc\n', 'a\nX\nc\n', 'a\r\nX\nc\r\n'],
    ['knows no line ending but LF and CRLF', 'a\rb\rc', 'a\rb', 'x\ny', 'x\ny\rc'],
    ['leaves a CR that stands alone before a CRLF', 'a\r\r\nb', 'b', 'c', 'a\r\r\nc'],
    ['removes a CRLF as one', 'a\r\nb\r\nc', '\nb', '', 'a\r\nc']
  ])('%s', (_what, text, replace, to, expected) => {
    expect(edit(text, replace, to)).toBe(expected)
  })

  it('asks the first 4096 characters of the file', () => {
    const head = 'x'.repeat(4096)
    expect(edit(`${head}\r\n@\r\n`, '@', '1\n2')).toBe(`${head}\r\n1\n2\r\n`)
    expect(edit(`\r\n${head}\n\n@\n`, '@', '1\n2')).toBe(`\r\n${head}\n\n1\r\n2\n`)
  })

  it('every unit outside the replaced ranges stays, whatever the text', () => {
    const unit = fc.constantFrom('a', 'b', '\n', '\r\n', '\r', '😀')
    const texts = (most: number) => fc.array(unit, { maxLength: most })
    fc.assert(
      fc.property(texts(30), fc.array(unit, { minLength: 1, maxLength: 3 }), texts(4), (units, needle, to) => {
        const text = units.join('')
        const [replace, replacement] = [needle.join(''), to.join('')]
        // Independent of offsets: the text as a list of units, where CRLF is one.
        const inText = text.match(/\r\n|[^]/g) ?? []
        const inNeedle = replace.match(/\r\n|[^]/g) ?? []
        const fold = (one: string | undefined) => (one === '\r\n' ? '\n' : one)
        const expected: (string | { range: string })[] = []
        for (let at = 0; at < inText.length;) {
          if (inNeedle.every((one, index) => fold(one) === fold(inText[at + index]))) {
            expected.push({ range: inText.slice(at, at + inNeedle.length).join('') })
            at += inNeedle.length
          } else {
            expected.push(inText[at]!)
            at += 1
          }
        }
        const isFound = expected.some((one) => typeof one === 'object')
        if (!isFound) {
          expect(codeOf(() => edit(text, replace, replacement, { all: true }))).toBe('FS_EDIT_NOT_FOUND')
          return
        }
        const edited = edit(text, replace, replacement, { all: true })
        // The replacement's own line endings are free here; all else is literal.
        const literal = (part: string) => part.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
        const free = replacement.replaceAll('\r\n', '\n').split('\n').map(literal).join('\r?\n')
        const pattern = expected.map((one) => (typeof one === 'string' ? literal(one) : free)).join('')
        expect(edited).toMatch(new RegExp(`^${pattern}$`, 'u'))
      }),
      { numRuns: 2000 }
    )
  })
})

describe('exact edits and insertions', () => {
  it('compare byte by byte', () => {
    expect(codeOf(() => edit('a\r\nb', 'a\nb', 'x', { exact: true }))).toBe('FS_EDIT_NOT_FOUND')
    expect(edit('a\r\nb\n', 'a\r\nb', 'x\ny', { exact: true })).toBe('x\ny\n')
  })

  it.each([
    [0, 'xa\nb\n'],
    [1, 'a\nxb\n'],
    [2, 'a\nb\nx'],
    [3, 'a\nb\nx']
  ])('insert behind line %i, and add no newline', (afterLine, expected) => {
    expect(applyEdit('a\nb\n', { insert: 'x', afterLine }, '/f')).toBe(expected)
  })

  it('know the last line', () => {
    expect(applyEdit('a\nb', { insert: 'x', afterLine: 2 }, '/f')).toBe('a\nbx')
    expect(applyEdit('', { insert: 'x', afterLine: 1 }, '/f')).toBe('x')
    expect(codeOf(() => applyEdit('a\nb', { insert: 'x', afterLine: 3 }, '/f'))).toBe('FS_EDIT_NOT_FOUND')
    expect(codeOf(() => applyEdit('a\n', { insert: 'x', afterLine: Number.MAX_SAFE_INTEGER }, '/f'))).toBe(
      'FS_EDIT_NOT_FOUND'
    )
  })
})
