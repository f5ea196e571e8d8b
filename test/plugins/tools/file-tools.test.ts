import {
  appendFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { editTool } from '../../../plugins/tools/edit.ts'
import { readTool } from '../../../plugins/tools/read.ts'
import { strReplaceEditorTool } from '../../../plugins/tools/str-replace-editor.ts'
import { writeTool } from '../../../plugins/tools/write.ts'
import { LocalFiles, type LocalFilesOptions } from '../../../server/backends/files/local-files.ts'
import { Observations } from '../../../server/backends/files/observations.ts'
import type { JsonObject, JsonValue } from '../../../server/json/lossless.ts'
import type { ToolResult } from '../../../server/pipeline/result.ts'
import { callCard, resultCard } from '../../../server/tools/cards.ts'
import { codeOf, messageIn, PipelineFixture } from '../../helpers/pipeline-fixture.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

function open(options: Partial<LocalFilesOptions> = {}) {
  const cwd = temporaryDirectory()
  const fixture = new PipelineFixture({ traced: false })
  const services = {
    files: new LocalFiles({ dataDirectory: join(cwd, 'data'), ...options }),
    observations: new Observations(),
    workspaces: { cwdOf: () => cwd }
  }
  for (const tool of [readTool, writeTool, editTool, strReplaceEditorTool]) fixture.register(tool(services))
  const agent = fixture.agent('A')
  return {
    cwd,
    fixture,
    agent,
    call: (name: string, args: JsonObject, by = agent) => fixture.call(name, args, { agent: by }),
    put: (name: string, content: string) => writeFileSync(join(cwd, name), content),
    get: (name: string) => readFileSync(join(cwd, name), 'utf8'),
    tool: (name: string) => fixture.registry.lookup(name, agent.scope)!
  }
}

const value = (result: ToolResult) => (result.isError ? undefined : (result.value as JsonObject))
const textOf = ({ content }: ToolResult) => (content[0] as { text: string }).text

describe('write', () => {
  it('C47 creates without a read, and never shows what it wrote', async () => {
    const { cwd, call, tool } = open()
    const args = { file_path: 'new/dir/f', content: 'hello\n' }
    const result = await call('write', args)
    expect(value(result)).toEqual({ path: join(cwd, 'new/dir/f'), operation: 'create', before: null, after: 'hello\n' })
    expect(textOf(result)).toBe(
      `<path>${cwd}/new/dir/f</path>\n<type>file</type>\n<content>\nThe file was created.\n</content>`
    )
    expect(statSync(join(cwd, 'new/dir/f')).mode & 0o777).toBe(0o600)
    expect(result.meta).toEqual({ diffs: [] })
    // C56: one entry, without an old text.
    const diffs = [{ path: 'new/dir/f', oldText: null, newText: 'hello\n' }]
    expect(resultCard(tool('write'), JSON.stringify(args), result)).toEqual({ card: 'diff', diffs })
    expect(callCard(tool('write'), JSON.stringify(args))).toEqual({
      card: 'diff',
      title: 'Write new/dir/f',
      diffs,
      locations: [{ path: 'new/dir/f' }]
    })
  })

  it('C48 overwrites only what was read, and then goes on', async () => {
    const { call, put, get, cwd } = open()
    put('f', 'old\n')
    const unread = await call('write', { file_path: 'f', content: 'new\n' })
    expect([codeOf(unread), messageIn(unread)]).toEqual([
      'FS_NOT_OBSERVED',
      expect.stringMatching(/Read the file first/)
    ])
    expect(get('f')).toBe('old\n')
    await call('read', { file_path: 'f' })
    const first = await call('write', { file_path: 'f', content: 'new\n' })
    expect(value(first)).toEqual({ path: join(cwd, 'f'), operation: 'update', before: 'old\n', after: 'new\n' })
    expect(textOf(first)).toContain('The file was updated.')
    expect(first.meta).toEqual({ diffs: [{ path: join(cwd, 'f'), oldText: 'old', newText: 'new' }] })
    expect(codeOf(await call('write', { file_path: 'f', content: '' }))).toBeUndefined()
    expect(get('f')).toBe('')
  })

  it('a file that a read missed may be created, unless somebody else was first', async () => {
    const { call, put, get } = open()
    for (const name of ['a', 'b']) expect(codeOf(await call('read', { file_path: name }))).toBe('FS_NOT_FOUND')
    put('b', 'theirs')
    expect(codeOf(await call('write', { file_path: 'a', content: 'mine' }))).toBeUndefined()
    expect(codeOf(await call('write', { file_path: 'b', content: 'mine' }))).toBe('FS_NOT_OBSERVED')
    expect(get('b')).toBe('theirs')
  })
})

describe('edit', () => {
  it('C49 needs a read, and notices changes since', async () => {
    const { call, put, get, cwd } = open()
    put('f', 'x\n')
    const args = { file_path: 'f', old_string: 'x', new_string: 'y' }
    const unread = await call('edit', args)
    expect([codeOf(unread), messageIn(unread)]).toEqual([
      'FS_NOT_OBSERVED',
      expect.stringMatching(/Read the file first/)
    ])
    await call('read', { file_path: 'f' })
    appendFileSync(join(cwd, 'f'), 'z\n')
    const stale = await call('edit', args)
    expect([codeOf(stale), messageIn(stale)]).toEqual(['FS_STALE_VERSION', expect.stringMatching(/Re-read the file/)])
    await call('read', { file_path: 'f', offset: 2, limit: 1 })
    const result = await call('edit', args)
    expect(value(result)).toEqual({ path: join(cwd, 'f'), before: 'x\nz\n', after: 'y\nz\n' })
    expect(textOf(result)).toBe(`The text in ${cwd}/f was replaced.`)
    expect(codeOf(await call('edit', { ...args, old_string: 'z', new_string: 'w' }))).toBeUndefined()
    expect(get('f')).toBe('y\nw\n')
  })

  it('a missing file is stale, or known to be absent', async () => {
    const { call, get, cwd } = open()
    const args = { old_string: 'x', new_string: 'y' }
    expect(codeOf(await call('edit', { ...args, file_path: 'missing' }))).toBe('FS_NOT_OBSERVED')
    await call('read', { file_path: 'missing' })
    expect(codeOf(await call('edit', { ...args, file_path: 'missing' }))).toBe('FS_NOT_FOUND')
    await call('write', { file_path: 'f', content: 'x' })
    expect(codeOf(await call('edit', { ...args, file_path: 'f' }))).toBeUndefined()
    expect(get('f')).toBe('y')
    rmSync(join(cwd, 'f'))
    expect(codeOf(await call('edit', { ...args, file_path: 'f', old_string: 'y', new_string: 'x' }))).toBe(
      'FS_STALE_VERSION'
    )
  })

  it('C51 match rules', async () => {
    const { call, put, get, cwd } = open()
    put('f', 'a b a')
    await call('read', { file_path: 'f' })
    const attempt = (old_string: string, new_string: string, more = {}) =>
      call('edit', { file_path: 'f', old_string, new_string, ...more })
    expect(codeOf(await attempt('a', 'x'))).toBe('FS_AMBIGUOUS_EDIT')
    expect(codeOf(await attempt('missing', 'x'))).toBe('FS_EDIT_NOT_FOUND')
    expect((await attempt('', 'x')).isError).toBe(true)
    expect((await attempt('a', 'a')).isError).toBe(true)
    expect((await attempt('a\r\n', 'a\n')).isError).toBe(true)
    expect(get('f')).toBe('a b a')
    const all = await attempt('a', 'x', { replace_all: true })
    expect(textOf(all)).toBe(`Every occurrence in ${cwd}/f was replaced.`)
    expect(get('f')).toBe('x b x')
  })

  it('C54 aliases are one file', async () => {
    const { call, put, get, cwd } = open()
    put('f', 'a')
    symlinkSync('f', join(cwd, 'l'))
    await call('read', { file_path: 'l' })
    expect(codeOf(await call('edit', { file_path: 'f', old_string: 'a', new_string: 'b' }))).toBeUndefined()
    expect(codeOf(await call('write', { file_path: 'l', content: 'c' }))).toBeUndefined()
    expect([get('f'), lstatSync(join(cwd, 'l')).isSymbolicLink()]).toEqual(['c', true])
  })

  it('C56 far-apart replacements are hunks of their own, and the card is what was stored', async () => {
    const { call, put, tool, cwd } = open()
    put('f', Array.from({ length: 100 }, (_, at) => (at === 9 || at === 89 ? '@\n' : `${at}\n`)).join(''))
    await call('read', { file_path: 'f' })
    const args = { file_path: 'f', old_string: '@', new_string: '#', replace_all: true }
    const result = await call('edit', args)
    const { diffs } = result.meta as { diffs: { oldText: string; newText: string }[] }
    expect(diffs).toHaveLength(2)
    expect(diffs[0]).toEqual({
      path: join(cwd, 'f'),
      oldText: '6\n7\n8\n@\n10\n11\n12',
      newText: '6\n7\n8\n#\n10\n11\n12'
    })
    const raw = JSON.stringify(args)
    expect(resultCard(tool('edit'), raw, result)).toEqual({ card: 'diff', diffs })
    expect(callCard(tool('edit'), raw)).toMatchObject({
      card: 'diff',
      title: 'Edit f',
      diffs: [{ path: 'f', oldText: '@', newText: '#' }]
    })
    for (const damage of [{ meta: null }, { meta: { diffs: [] } }, { isError: true }]) {
      expect(resultCard(tool('edit'), raw, { ...result, ...damage } as never)).toBeUndefined()
    }
  })

  it('C57 what one session read is nothing to another, and nobody is nobody', async () => {
    const { call, put, get, fixture } = open()
    put('f', 'a')
    await call('read', { file_path: 'f' })
    const args = { file_path: 'f', old_string: 'a', new_string: 'b' }
    expect(codeOf(await call('edit', args, fixture.agent('B')))).toBe('FS_NOT_OBSERVED')
    await fixture.call('read', { file_path: 'f' })
    expect(codeOf(await fixture.call('edit', args))).toBe('FS_NOT_OBSERVED')
    expect(get('f')).toBe('a')
  })

  it('F69 concurrent edits of one session are all there', async () => {
    const { call, put, get } = open()
    put('f', Array.from({ length: 40 }, (_, at) => `<${at}>\n`).join(''))
    await call('read', { file_path: 'f' })
    const results = await Promise.all(
      Array.from({ length: 40 }, (_, at) =>
        call('edit', { file_path: 'f', old_string: `<${at}>`, new_string: `[${at}]` })
      )
    )
    expect(results.map(codeOf)).toEqual(Array.from({ length: 40 }, () => undefined))
    expect(get('f')).toBe(Array.from({ length: 40 }, (_, at) => `[${at}]\n`).join(''))
  })
})

describe('str_replace_editor', () => {
  const named = (name: string, cwd: string, more: JsonObject) => ({ command: name, path: join(cwd, 'f'), ...more })

  it('C58 takes absolute paths only, and creates new files only', async () => {
    const { call, get, cwd } = open()
    const relative = await call('str_replace_editor', { command: 'create', path: 'f', file_text: 'x' })
    expect([relative.isError, existsSync(join(cwd, 'f'))]).toEqual([true, false])
    const made = await call('str_replace_editor', named('create', cwd, { file_text: '' }))
    expect(value(made)).toBe(`${cwd}/f was created.`)
    expect((await call('str_replace_editor', named('create', cwd, {}))).isError).toBe(true)
    const again = await call('str_replace_editor', named('create', cwd, { file_text: 'x' }))
    expect([codeOf(again), messageIn(again)]).toEqual(['FS_NOT_OBSERVED', expect.stringMatching(/exists already/)])
    expect(codeOf(await call('str_replace_editor', { command: 'create', path: cwd, file_text: 'x' }))).toBe(
      'FS_NOT_REGULAR_FILE'
    )
    expect(get('f')).toBe('')
  })

  it('C58 views files with numbers, in ranges', async () => {
    const { call, put, cwd } = open()
    put('f', 'one\n\ttwo\nthree\nfour')
    const view = (more: JsonObject = {}) => call('str_replace_editor', named('view', cwd, more))
    const head = `${cwd}/f, 4 lines in total:\n`
    expect(textOf(await view())).toBe(`${head}     1  one\n     2  \ttwo\n     3  three\n     4  four`)
    expect(textOf(await view({ view_range: [2, 3] }))).toBe(`${head}     2  \ttwo\n     3  three`)
    expect(textOf(await view({ view_range: [3, -1] }))).toBe(`${head}     3  three\n     4  four`)
    for (const view_range of [[0, 2], [3, 2], [5, 5], [1, 5], [5, -1], [1], [1, 2, 3], [], [1, -2]]) {
      expect((await view({ view_range })).isError).toBe(true)
    }
    put('f', 'a\n')
    expect(textOf(await view())).toBe(`${cwd}/f, 2 lines in total:\n     1  a\n     2  `)
    put('f', '')
    expect(textOf(await view())).toBe(`${cwd}/f, 1 line in total:\n     1  `)
    put('f', 'x'.repeat(300_000))
    expect(textOf(await view())).toHaveLength(16_000)
    expect(textOf(await view())).toMatch(/^\/.* 1 line in total:\n {5}1 {2}x+\n… \(cut at 16000 characters; .*\)$/)
  })

  it('views lines that come in many pieces, and far down', async () => {
    const { call, put, cwd } = open()
    const lines = Array.from({ length: 60_000 }, (_, at) => `line ${at + 1} of many`)
    put('f', lines.join('\n'))
    const result = await call('str_replace_editor', named('view', cwd, { view_range: [19_000, 19_200] }))
    const rows = lines.slice(18_999, 19_200).map((line, at) => ` ${19_000 + at}  ${line}`)
    expect(textOf(result)).toBe(`${cwd}/f, 60000 lines in total:\n${rows.join('\n')}`)
  })

  it('C58 lists directories two levels deep', async () => {
    const { call, put, cwd } = open()
    for (const path of ['b/c/d', '.git/x', 'node_modules/x', 'b/__pycache__', 'b-c', 'locked']) {
      mkdirSync(join(cwd, path), { recursive: true })
    }
    for (const path of ['a', '.env', 'b/f', 'b/.hidden', 'b/c/deep']) put(path, '')
    symlinkSync('/etc', join(cwd, 'link'))
    const list = (more: JsonObject = {}) => call('str_replace_editor', { command: 'view', path: cwd, ...more })
    const rows = [
      ['f', 'a'],
      ['d', 'b'],
      ['d', 'b-c'],
      ['d', 'b/c'],
      ['f', 'b/f'],
      ['?', 'link'],
      ['d', 'locked']
    ]
    expect(
      textOf(await list())
        .split('\n')
        .slice(1)
    ).toEqual(rows.map(([kind, path]) => `${kind}\t${cwd}/${path}`))
    expect((await list({ view_range: [1, 2] })).isError).toBe(true)
    expect(codeOf(await call('str_replace_editor', { command: 'view', path: '/dev/null' }))).toBe(
      'FS_PERMISSION_DENIED'
    )
  })

  it('C58 replaces what is there once, byte for byte', async () => {
    const { call, put, get, cwd } = open()
    put('f', 'a\r\nb\nb\n')
    const replace = (more: JsonObject) => call('str_replace_editor', named('str_replace', cwd, more))
    expect(codeOf(await replace({ old_str: 'a', new_str: 'x' }))).toBe('FS_NOT_OBSERVED')
    await call('str_replace_editor', named('view', cwd, {}))
    const ambiguous = await replace({ old_str: 'b', new_str: 'x' })
    expect([codeOf(ambiguous), messageIn(ambiguous)]).toEqual([
      'FS_AMBIGUOUS_EDIT',
      expect.stringMatching(/lines 2, 3/)
    ])
    expect(codeOf(await replace({ old_str: 'a\nb', new_str: 'x' }))).toBe('FS_EDIT_NOT_FOUND')
    expect((await replace({ old_str: '' })).isError).toBe(true)
    expect((await replace({ new_str: 'x' })).isError).toBe(true)
    expect(get('f')).toBe('a\r\nb\nb\n')
    expect(value(await replace({ old_str: 'a\r\nb', new_str: 'x\ny' }))).toBe(`${cwd}/f was edited.`)
    expect(codeOf(await replace({ old_str: 'x\n' }))).toBeUndefined()
    expect(get('f')).toBe('y\nb\n')
  })

  it('C58 inserts behind a line', async () => {
    const { call, put, get, cwd } = open()
    put('f', 'a\nb\n')
    await call('read', { file_path: 'f' })
    const insert = (more: JsonObject) => call('str_replace_editor', named('insert', cwd, more))
    expect(codeOf(await insert({ insert_line: 0, new_str: 'top\n' }))).toBeUndefined()
    expect(get('f')).toBe('top\na\nb\n')
    for (const more of [
      { insert_line: 0 },
      { new_str: 'x' },
      { insert_line: -1, new_str: 'x' },
      { insert_line: 5, new_str: 'x' },
      { insert_line: 1.5, new_str: 'x' }
    ]) {
      expect((await insert(more)).isError).toBe(true)
    }
    expect(get('f')).toBe('top\na\nb\n')
  })

  it('remembers what it looked for and did not find', async () => {
    const { call, put, cwd } = open()
    for (const [command, more] of [
      ['view', {}],
      ['str_replace', { old_str: 'a', new_str: 'b' }],
      ['insert', { insert_line: 0, new_str: 'b' }]
    ] as const) {
      const path = join(cwd, command)
      expect(codeOf(await call('str_replace_editor', { command, path, ...more }))).toBe('FS_NOT_FOUND')
      put(command, 'a')
      expect(codeOf(await call('edit', { file_path: path, old_string: 'a', new_string: 'b' }))).toBe('FS_NOT_FOUND')
    }
  })

  it('presents calls, and no results', async () => {
    const { tool, cwd } = open()
    const path = join(cwd, 'f')
    const card = (args: JsonValue) => callCard(tool('str_replace_editor'), JSON.stringify(args))
    const locations = [{ path }]
    expect(card({ command: 'view', path })).toEqual({ card: 'generic', kind: 'read', title: `View ${path}`, locations })
    expect(card({ command: 'create', path, file_text: 'x' })).toMatchObject({
      card: 'diff',
      diffs: [{ path, oldText: null, newText: 'x' }]
    })
    expect(card({ command: 'str_replace', path, old_str: 'x' })).toMatchObject({
      card: 'diff',
      diffs: [{ path, oldText: 'x', newText: '' }]
    })
    expect(card({ command: 'insert', path, insert_line: 3, new_str: 'x' })).toMatchObject({
      card: 'generic',
      kind: 'edit',
      locations: [{ path, line: 3 }]
    })
    for (const args of [
      { command: 'create', path },
      { command: 'str_replace', path },
      { command: 'insert', path, insert_line: -1 },
      { command: 'undo', path }
    ]) {
      expect(card(args)).toBeUndefined()
    }
    expect(tool('str_replace_editor').presentResult).toBeUndefined()
  })
})

const mutations: [tool: string, args: (path: string) => JsonObject][] = [
  ['write', (path) => ({ file_path: path, content: 'x' })],
  ['edit', (path) => ({ file_path: path, old_string: 'a', new_string: 'b' })],
  ['str_replace_editor', (path) => ({ command: 'str_replace', path, old_str: 'a', new_str: 'b' })]
]

describe.each(mutations)('%s', (name, args) => {
  it('C78 says in which mode the fence was met', async () => {
    const { call, put, get, cwd } = open({ mayWrite: () => 'read-only' })
    put('f', 'a')
    expect(codeOf(await call('read', { file_path: 'f' }))).toBeUndefined()
    const denied = await call(name, args(join(cwd, 'f')))
    expect(codeOf(denied)).toBe('FS_SANDBOX_DENIED')
    expect(textOf(denied).split('\n').at(-1)).toBe('[sandbox: file access denied under read-only mode]')
    expect(get('f')).toBe('a')
  })

  it('refuses arguments that mean nothing where nothing is confined', async () => {
    const { call, put, get, cwd } = open()
    put('f', 'a')
    await call('read', { file_path: 'f' })
    for (const more of [{ sandbox_permissions: 'danger-full-access' }, { justification: 'x' }]) {
      const refused = await call(name, { ...args(join(cwd, 'f')), ...more })
      expect([codeOf(refused), messageIn(refused)]).toEqual(['none', expect.stringMatching(/means nothing here/)])
    }
    expect(get('f')).toBe('a')
  })

  it('runs alone, without a time limit, and is harmful to repeat', async () => {
    const { tool } = open()
    const { isConcurrencySafe, timeoutMs, idempotent } = tool(name)
    expect([isConcurrencySafe?.(args('/f')) ?? false, timeoutMs, idempotent]).toEqual([false, undefined, undefined])
  })

  it('C13 an aborted call changes nothing', async () => {
    const { fixture, agent, call, put, get, cwd } = open()
    put('f', 'a')
    await call('read', { file_path: 'f' })
    const { controller, result } = fixture.start(name, args(join(cwd, 'f')), { agent })
    controller.abort()
    expect(codeOf(await result)).toMatch(/^ABORTED/)
    expect(get('f')).toBe('a')
  })
})

it('observations are bounded: the longest unseen file is forgotten', () => {
  const observations = new Observations()
  const owner = {}
  observations.observe(owner, 'first', { state: 'absent' })
  observations.observe(owner, 'second', { state: 'absent' })
  observations.observe(owner, 'first', { state: 'absent' })
  for (let at = 0; at < 19_999; at++) observations.observe(owner, `${at}`, { state: 'absent' })
  expect(observations.seen(owner, 'second')).toBeUndefined()
  expect(observations.seen(owner, 'first')).toEqual({ state: 'absent' })
})
