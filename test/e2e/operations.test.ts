import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { settings } from '../../server/config/schema.ts'
import { RunningServer } from '../helpers/running-server.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'

const root = resolve(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(root, file), 'utf8')
const run = promisify(execFile)

/** The shell blocks of docs/operations.md that are marked as rehearsed, in order. */
const rehearsed = [...read('docs/operations.md').matchAll(/^```sh rehearsed\n(.*?)^```/gms)].map(
  ([, block = '']) => block
)

describe('docs/operations.md', () => {
  it('backup and restore, as they are written there', async () => {
    const place = temporaryDirectory()
    const [bin, backups, restored] = ['bin', 'backups', 'restored'].map((name) => join(place, name)) as [
      string,
      string,
      string
    ]
    for (const directory of [bin, backups]) mkdirSync(directory)
    const program = join(bin, 'toolwright')
    writeFileSync(program, `#!/bin/sh\ncd '${root}' && exec '${process.execPath}' --import tsx server/cli.ts "$@"\n`)
    chmodSync(program, 0o755)
    const first = await RunningServer.start(place)
    const call = { name: 'todo_write', callId: 'c1', arguments: { todos: [] } }
    const { body: before } = await first.request('/invoke', call)
    await first.request('/tokens', { role: 'observer', label: 'a screen' })
    const env = {
      ...process.env,
      PATH: `${bin}:${process.env['PATH']}`,
      TOOLWRIGHT_HOME: join(place, 'data'),
      BACKUPS: backups,
      RESTORED: restored
    }
    expect(rehearsed).toHaveLength(2)
    const [backup = '', restore = ''] = rehearsed
    expect((await run('bash', ['-euc', backup], { env })).stderr).toBe('')
    await first.end('SIGTERM')
    expect((await run('bash', ['-euc', restore], { env })).stderr).toBe('')
    const second = await RunningServer.start(place, { home: restored })
    expect((await second.request('/invoke', call)).body).toEqual({ ...before, replayed: true })
    const { body } = await second.request('/tokens')
    expect(body.tokens).toMatchObject([{ label: 'a screen' }])
  })

  it('the manifests are YAML and JSON, and name settings that there are', () => {
    const variables = new Set([...settings.values()].map(({ variable }) => variable))
    const named: string[] = []
    const texts = ['compose.yaml', 'docs/deploy/kubernetes.yaml', 'docs/deploy/toolwright.service', 'Dockerfile'].map(
      read
    )
    for (const text of texts) {
      named.push(...[...text.matchAll(/\bTOOLWRIGHT_[A-Z_]+/g)].map(([variable]) => variable))
    }
    expect(named.length).toBeGreaterThan(8)
    expect(named.filter((variable) => !variables.has(variable) && variable !== 'TOOLWRIGHT_CONFIG')).toEqual([])
    for (const text of texts.slice(0, 2)) {
      for (const document of parseAllDocuments(text)) expect('errors' in document ? document.errors : []).toEqual([])
    }
    expect(() => JSON.parse(read('docs/deploy/seccomp.json')) as unknown).not.toThrow()
  })

  it('grace periods are above what a shutdown may take', () => {
    const value = (path: string): number => settings.get(path)?.schema.default as number
    const longest = (preStopMs: number): number => preStopMs + value('drain.drainMs') + 2 * value('drain.killMs')
    const seconds = (file: string, key: RegExp): number => Number(key.exec(read(file))?.[1]) * 1000
    expect(seconds('compose.yaml', /stop_grace_period: (\d+)s/)).toBeGreaterThan(longest(0))
    expect(seconds('docs/deploy/kubernetes.yaml', /terminationGracePeriodSeconds: (\d+)/)).toBeGreaterThan(
      longest(5_000)
    )
    expect(seconds('docs/deploy/toolwright.service', /TimeoutStopSec=(\d+)/)).toBeGreaterThan(longest(0))
  })
})
