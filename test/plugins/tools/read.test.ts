import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readTool } from '../../../plugins/tools/read.ts'
import { LineWindow, type NumberedLine } from '../../../plugins/tools/read-lines.ts'
import { languageOf } from '../../../plugins/tools/read-text.ts'
import { LocalFiles } from '../../../server/backends/files/local-files.ts'
import { Observations } from '../../../server/backends/files/observations.ts'
import type { JsonValue } from '../../../server/json/lossless.ts'
import { agentOf, runContext } from '../../helpers/run-context.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

interface Value {
  path: string
  offset: number
  lines: NumberedLine[]
  totalLines: number
}

function open() {
  const cwd = temporaryDirectory()
  const files = new LocalFiles({ dataDirectory: join(cwd, 'data') })
  const observations = new Observations()
  const tool = readTool({ files, observations, workspaces: { cwdOf: () => cwd } })
  const agent = agentOf('A')
  const call = async (args: Record<string, JsonValue>) => {
    const value = (await tool.execute(args, runContext({ agent }))) as Value
    const content = tool.output.render(args, value as never) as [{ type: 'text'; text: string }]
    const meta = tool.output.presentationMeta!(args, value as never)
    return {
      value,
      content,
      text: content[0].text,
      meta,
      card: tool.presentResult!(args, { content, meta, isError: false })
    }
  }
  const write = (name: string, content: string | Uint8Array) => {
    writeFileSync(join(cwd, name), content)
    return name
  }
  return { tool, cwd, call, write, files, observations, agent }
}

describe('read', () => {
  it('C43 read envelope', async () => {
    const { call, write, cwd } = open()
    const { value, text, card } = await call({ file_path: write('f', 'a\nb\n') })
    const lines = [
      { number: 1, text: 'a' },
      { number: 2, text: 'b' }
    ]
    expect(value).toEqual({ path: join(cwd, 'f'), offset: 1, lines, totalLines: 2 })
    const body = '1: a\n2: b\n\n(End of the file: 2 lines in total.)'
    expect(text).toBe(`<path>${cwd}/f</path>\n<type>file</type>\n<content>\n${body}\n</content>`)
    expect(card).toEqual({ card: 'read', path: join(cwd, 'f'), offset: 1, lines, totalLines: 2, content: body })
  })

  it('C44 windows', async () => {
    const { call, write } = open()
    const file_path = write('f', Array.from({ length: 5000 }, (_, at) => `${at + 1}\n`).join(''))
    const first = await call({ file_path })
    expect(first.value.lines).toHaveLength(2000)
    expect(first.text).toContain('go on with offset 2001')
    expect((await call({ file_path, offset: 4999 })).value.lines).toEqual([
      { number: 4999, text: '4999' },
      { number: 5000, text: '5000' }
    ])
    await expect(call({ file_path, offset: 6000 })).rejects.toMatchObject({ code: 'FS_NOT_FOUND' })
    for (const bad of [{ limit: 2001 }, { limit: 0 }, { offset: 1.5 }, { offset: 0 }, { offset: -1 }]) {
      await expect(call({ file_path, ...bad })).rejects.toThrow(/whole number/)
    }
    await expect(call({ file_path: '  ' })).rejects.toThrow(/blank/)
    const empty = await call({ file_path: write('empty', '') })
    expect(empty.value).toMatchObject({ lines: [], totalLines: 0 })
    expect(empty.card).toMatchObject({ card: 'read', lines: [], totalLines: 0 })
  })

  it('C45 caps', async () => {
    const { call, write } = open()
    const long = await call({ file_path: write('long', `${'x'.repeat(3000)}\nnext\n`) })
    expect(long.value.lines[0]!.text).toMatch(/^x{2000}… .*2000/)
    expect(long.value.lines[1]).toEqual({ number: 2, text: 'next' })
    const wide = await call({ file_path: write('wide', `${'y'.repeat(1000)}\n`.repeat(300)) })
    expect(wide.value.lines).toHaveLength(51)
    expect(wide.value.totalLines).toBe(300)
    expect(wide.text).toContain('(Cut at 51200 bytes: lines 1 to 51 of 300; go on with offset 52.)')
    expect((await call({ file_path: write('crlf', 'a\r\nb\r\n') })).text).not.toContain('\r')
  })

  it('C46 wrong kinds', async () => {
    const { call, write, cwd } = open()
    mkdirSync(join(cwd, 'directory'))
    await expect(call({ file_path: 'directory' })).rejects.toMatchObject({ code: 'FS_NOT_REGULAR_FILE' })
    await expect(call({ file_path: 'missing' })).rejects.toMatchObject({ code: 'FS_NOT_FOUND' })
    await expect(call({ file_path: write('nul', 'a\0b') })).rejects.toMatchObject({ code: 'FS_NOT_TEXT' })
    await expect(call({ file_path: write('bad', Buffer.from([0x61, 0xff])) })).rejects.toMatchObject({
      code: 'FS_NOT_TEXT'
    })
    await expect(call({ file_path: write('half', Buffer.from([0x61, 0xe4, 0xbd])) })).rejects.toMatchObject({
      code: 'FS_NOT_TEXT'
    })
  })

  it('remembers what the session saw, under all names of the file (C54, C57)', async () => {
    const { call, write, cwd, files, observations, agent } = open()
    write('f', 'a')
    symlinkSync('f', join(cwd, 'link'))
    const { targetKey } = await files.resolve('f', { cwd })
    await expect(call({ file_path: 'f', offset: 9 })).rejects.toThrow()
    expect(observations.seen(agent, targetKey)).toBeUndefined()
    await call({ file_path: 'link' })
    const { version } = await files.facts(await files.resolve('f', { cwd }))
    expect(observations.seen(agent, targetKey)).toEqual({ state: 'present', version })
    expect(observations.seen(agentOf('A'), targetKey)).toBeUndefined()
    await expect(call({ file_path: 'missing' })).rejects.toThrow()
    expect(observations.seen(agent, join(cwd, 'missing'))).toEqual({ state: 'absent' })
  })

  it('presents calls', () => {
    const { tool } = open()
    const card = (args: JsonValue) => tool.presentCall!(args)
    expect(card({ file_path: 'f' })).toEqual({
      card: 'generic',
      kind: 'read',
      title: 'Read f',
      locations: [{ path: 'f', line: 1 }]
    })
    expect(card({ file_path: 'f', offset: 5 })).toMatchObject({
      title: 'Read f (from line 5)',
      locations: [{ path: 'f', line: 5 }]
    })
    expect(card({ file_path: 'f', offset: 5, limit: 3 })).toMatchObject({ title: 'Read f (5 - 7)' })
    expect(card({ file_path: 'f', offset: 1.5 })).toBeUndefined()
    expect(card({})).toBeUndefined()
  })

  it('makes no card out of damaged results', async () => {
    const { tool, call, write } = open()
    const args = { file_path: write('f', 'a\nb\n') }
    const { content, meta } = await call(args)
    const whole = meta as { [key: string]: JsonValue }
    const card = (more: object) => tool.presentResult!(args, { content, meta, isError: false, ...more })
    const line = (number: number) => ({ number, text: 'x' })
    expect(card({})).toBeDefined()
    expect(card({ isError: true })).toBeUndefined()
    expect(card({ content: [{ type: 'text', text: 'other' }] })).toBeUndefined()
    expect(card({ content: [] })).toBeUndefined()
    for (const broken of [null, 'x', [], {}]) expect(card({ meta: broken })).toBeUndefined()
    const damages = [
      { lines: [line(2), line(1)] },
      { lines: [line(1), line(1)] },
      { lines: [line(3)] },
      { lines: [line(0)] },
      { lines: ['x'] },
      { lines: 7 },
      { totalLines: -1 },
      { totalLines: 1.5 },
      { offset: 0 },
      { path: '/another' }
    ]
    for (const damage of damages) expect(card({ meta: { ...whole, ...damage } })).toBeUndefined()
  })

  it('may overlap other calls and be repeated', () => {
    const { tool } = open()
    expect([tool.isConcurrencySafe!({ file_path: 'f' }), tool.idempotent, tool.timeoutMs]).toEqual([
      true,
      true,
      undefined
    ])
  })
})

describe('LineWindow', () => {
  it('picks the lines that split would, whatever the pieces are', () => {
    const piece = fc.stringMatching(/^[ab\r\n]{0,6}$/)
    fc.assert(
      fc.property(
        fc.array(piece),
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 1, max: 8 }),
        (pieces, offset, limit) => {
          const window = new LineWindow(offset, limit)
          for (const next of pieces) window.write(next)
          window.end()
          const all = pieces.join('').split('\n')
          if (all.at(-1) === '') all.pop()
          const expected = all.map((text, at) => ({ number: at + 1, text: text.replace(/\r$/, '') }))
          expect(window.totalLines).toBe(all.length)
          expect(window.lines).toEqual(expected.slice(offset - 1, offset - 1 + limit))
        }
      )
    )
  })

  it.each([
    ['x'.repeat(2000), 'x'.repeat(2000)],
    [`${'x'.repeat(2000)}\r`, 'x'.repeat(2000)],
    [`${'x'.repeat(1999)}😀`, `${'x'.repeat(1999)}… (line cut at 2000 characters)`],
    ['x'.repeat(2001), `${'x'.repeat(2000)}… (line cut at 2000 characters)`]
  ])('cuts long lines at the cap and between characters', (line, expected) => {
    const window = new LineWindow(1, 10)
    for (const char of [line.slice(0, 1000), line.slice(1000), '\nnext']) window.write(char)
    window.end()
    expect(window.lines.map(({ text }) => text)).toEqual([expected, 'next'])
  })
})

it('knows languages by extension only', () => {
  expect(['a.ts', '/x/y.PY', '.bashrc', 'Makefile', 'foo.constructor', 'foo.__proto__', 'a.'].map(languageOf)).toEqual([
    'typescript',
    'python',
    undefined,
    undefined,
    undefined,
    undefined,
    undefined
  ])
})
