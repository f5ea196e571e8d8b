import { chmodSync, existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { processesWith } from '../helpers/processes.ts'
import { RunningServer } from '../helpers/running-server.ts'
import { sandboxGround } from '../helpers/sandbox.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

const canConfine = await sandboxGround()
  .open()
  .then(
    () => true,
    () => false
  )

/** A file that whoever starts the server has open: close to the descriptors that everybody has, and far from them. */
async function startServer(settings: (home: string) => Record<string, unknown>) {
  const home = temporaryDirectory()
  // The user of confined commands comes through.
  chmodSync(home, 0o755)
  const held = join(home, 'held')
  writeFileSync(held, '')
  const launcher = ['bash', '-c', 'exec 9<"$0" 40<"$0" 300<"$0"; exec "$@"', held]
  const server = await RunningServer.start(home, settings(home), { launcher })
  const use = async (name: string, args: object) => {
    const { body } = await server.request('/invoke', { session: 's', name, arguments: args })
    expect(body).toMatchObject({ isError: false })
    return body.value
  }
  return { home, server, use, holders: () => holdersOf(held) }
}

/** Command lines of all processes that have a file open. */
const holdersOf = (path: string): string[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) =>
      ofProc(() => readdirSync(`/proc/${pid}/fd`), []).some((fd) => isOpen(`/proc/${pid}/fd/${fd}`, path))
    )
    .map((pid) => ofProc(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim(), ''))

const isOpen = (link: string, path: string): boolean => ofProc(() => readlinkSync(link), '') === path

/** A process may be gone since it was listed. */
function ofProc<T>(read: () => T, gone: T): T {
  try {
    return read()
  } catch {
    return gone
  }
}

const onlyTheServer = [expect.stringContaining('dist/server/main.js')]

describe('S29 what the starter of the server had open reaches', () => {
  it(`no command, job, terminal, tool, MCP server or program${canConfine ? ', confined or not' : ''}`, async () => {
    const { home, server, use, holders } = await startServer((at) => ({
      shell: { executor: canConfine ? 'bash-sandbox' : 'bash-local' },
      codeRuntime: { backend: 'process' },
      mcp: {
        startupWaitMs: 1,
        servers: { held: { transport: 'stdio', command: 'bash', args: ['-c', `touch ${at}/mcp; exec sleep 60`] } }
      }
    }))
    const { stdout } = await use('bash', { command: 'readlink /proc/$$/fd/*; true', description: 'x' })
    expect(stdout.text).toMatch(/^(?:(?:\/dev\/null|pipe:.*|socket:.*|\/.*\/toolwright-pipes-.* \(deleted\))\n){3}$/)
    await use('bash', { command: 'sleep 60', description: 'x', run_in_background: true })
    await use('terminal_open', { type: 'shell' })
    await use('terminal_open', { type: 'shell' })
    const argv = ['bash', '-c', `touch ${home}/tool; exec sleep 60`]
    const tool = { name: 'held', description: 'x', parameters: { type: 'object' }, executor: { kind: 'command', argv } }
    expect((await server.request('/tools', tool)).status).toBe(201)
    void server.request('/invoke', { session: 't', name: 'held', arguments: {} }).catch(() => undefined)
    await until(() => existsSync(join(home, 'tool')) && existsSync(join(home, 'mcp')))
    // All of these run now, and a spare world beside them.
    expect(processesWith('code-runtime/process/relay.js')).not.toEqual([])
    expect(holders()).toEqual(onlyTheServer)
  })

  it('no program in Python', async () => {
    const { holders } = await startServer(() => ({ codeRuntime: { backend: 'python' } }))
    await until(() => processesWith('python/world.py').length > 0)
    await until(() => holders().length === 1)
    expect(holders()).toEqual(onlyTheServer)
  })
})
