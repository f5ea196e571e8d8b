import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import bash from '../../../plugins/tools/bash.ts'
import read from '../../../plugins/tools/read.ts'
import { LocalFiles } from '../../../server/backends/files/local-files.ts'
import { Observations } from '../../../server/backends/files/observations.ts'
import { BashShell } from '../../../server/backends/shell/bash-shell.ts'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import { codeOf, PipelineFixture } from '../../helpers/pipeline-fixture.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const trees = new ManagedTrees({ dataDirectory: import.meta.dirname })
afterAll(() => trees.dispose())

async function open() {
  const cwd = temporaryDirectory()
  const fixture = new PipelineFixture({ traced: false })
  const services = new Map<string, unknown>(
    Object.entries({
      shell: new BashShell(trees, { limits: { graceMs: 500 } }),
      files: new LocalFiles({ dataDirectory: join(cwd, 'data') }),
      observations: new Observations(),
      workspaces: { cwdOf: () => cwd },
      sandboxPolicies: {
        isConfining: false,
        escalations: [],
        policyFor: async () => ({ mode: 'danger-full-access', workspaceRoot: cwd })
      },
      jobs: { isServed: () => false }
    })
  )
  for (const plugin of [bash, read]) await fixture.tools.mount(plugin, {}, (name) => services.get(name))
  return { cwd, fixture, agent: fixture.agent('A') }
}

it('C01 C02 a command is a success whatever its exit code, with its text as content', async () => {
  const { fixture, agent } = await open()
  const result = await fixture.call(
    'bash',
    { command: 'echo $TOOLWRIGHT_SESSION_ID; exit 3', description: 'x' },
    { agent }
  )
  expect(result).toMatchObject({ isError: false, value: { kind: 'foreground', exitCode: 3 } })
  expect(result.content).toEqual([{ type: 'text', text: `${agent.id}\n[exit code: 3]` }])
})

it('C05 C06 what cannot be started or is not valid is an error', async () => {
  const { fixture } = await open()
  const codes = await Promise.all(
    [
      { command: 'true' },
      { command: 'true', description: 'x', workdir: 'nowhere' },
      { command: ' ', description: 'x' }
    ].map(async (args) => codeOf(await fixture.call('bash', args)))
  )
  expect(codes).toEqual(['INVALID_ARGS', 'SPAWN_FAILED', 'none'])
})

it('C13 an aborted command is ABORTED, one aborted before is not run', async () => {
  const { fixture, cwd } = await open()
  const sleep = uniqueSleep()
  const { controller, result } = fixture.start('bash', { command: `sleep ${sleep}; true`, description: 'x' })
  await until(() => processesWith(`sleep ${sleep}`).length > 0)
  controller.abort()
  expect(codeOf(await result)).toBe('ABORTED')
  expect(processesWith(sleep)).toEqual([])
  const before = await fixture.call(
    'bash',
    { command: 'touch canary', description: 'x' },
    { signal: AbortSignal.abort() }
  )
  expect(codeOf(before)).toBe('ABORTED_BEFORE_DISPATCH')
  expect(existsSync(join(cwd, 'canary'))).toBe(false)
})

it('F29 output is seen live', async () => {
  const { fixture } = await open()
  const live: string[] = []
  const onProgress = (chunk: string) => void live.push(chunk)
  await fixture.call(
    'bash',
    { command: "printf '\\xe4\\xbd'; sleep .1; printf '\\xa0'; echo err >&2", description: 'x' },
    { onProgress }
  )
  expect(live.join('')).toMatch(/^(你err\n|err\n你)$/)
})

it('C43 C46 read gives lines, meta and coded errors', async () => {
  const { fixture, cwd, agent } = await open()
  writeFileSync(join(cwd, 'f.ts'), 'a\nb\n')
  const result = await fixture.call('read', { file_path: 'f.ts' }, { agent })
  const lines = [
    { number: 1, text: 'a' },
    { number: 2, text: 'b' }
  ]
  expect(result).toMatchObject({
    isError: false,
    meta: { path: join(cwd, 'f.ts'), offset: 1, lines, totalLines: 2, lang: 'typescript' }
  })
  expect(codeOf(await fixture.call('read', { file_path: '.' }))).toBe('FS_NOT_REGULAR_FILE')
  expect(codeOf(await fixture.call('read', { file_path: 'missing' }))).toBe('FS_NOT_FOUND')
  expect(codeOf(await fixture.call('read', { file_path: '/proc/self/environ' }))).toBe('FS_PERMISSION_DENIED')
})
