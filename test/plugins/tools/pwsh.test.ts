import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { fakePwsh, setPath } from '../../helpers/fake-pwsh.ts'
import { HomeApp } from '../../helpers/home-app.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

const startPwsh = (settings: Record<string, string> = {}) =>
  HomeApp.start({ 'shell.executor': 'pwsh-local', ...settings })

async function views(server: HomeApp, session: string) {
  const { body } = await server.ask('GET', `/sessions/${session}/events`)
  return body.events.filter(({ view }: { view?: unknown }) => view !== undefined).map(({ view }: any) => view)
}

describe('pwsh (backends.md §3.3)', () => {
  it('takes the place of bash, and is the same to models and people', async () => {
    fakePwsh()
    const server = await startPwsh()
    const invoke = async (name: string, args: object) =>
      (await server.ask('POST', '/invoke', { name, arguments: args, session: 's' })).body
    const names = await server.names('global')
    expect([names.includes('pwsh'), names.includes('bash')]).toEqual([true, false])

    const failed = await invoke('pwsh', { command: 'printf é; printf no >&2; exit 3', description: 'Fail' })
    expect(failed).toMatchObject({ isError: false })
    expect(failed.content).toEqual([{ type: 'text', text: 'é\n[stderr]\nno\n[exit code: 3]' }])
    const late = await invoke('pwsh', { command: 'echo hi; sleep 60', description: 'x', timeoutMs: 1500 })
    expect(late.content[0].text).toBe('hi\n[timed out after 1500ms]\n[killed by signal: SIGTERM]')
    expect(await invoke('pwsh', { command: ' ', description: 'x' })).toMatchObject({ isError: true })
    expect((await invoke('bash', { command: 'true', description: 'x' })).error.info.code).toBe('UNKNOWN_TOOL')

    const started = await invoke('pwsh', { command: 'exit 4', description: 'x', run_in_background: true })
    expect(started.content[0].text).toBe('started background job pwsh-1')
    const read = await invoke('job_output', { job_id: 'pwsh-1', wait: true })
    expect(read.content[0].text).toBe('(no new output)\n[status: completed, exit code: 4]')
    expect((await invoke('job_list', {})).content[0].text).toBe('pwsh-1 [pwsh] completed — exit 4')

    const cards = await views(server, 's')
    expect(cards).toContainEqual(
      expect.objectContaining({ card: 'terminal', title: 'printf é; printf no >&2; exit 3', description: 'Fail' })
    )
    expect(cards).toContainEqual(expect.objectContaining({ card: 'terminal', output: 'é\n[stderr]\nno', exitCode: 3 }))
  })

  it('nothing runs in the background where that is off', async () => {
    fakePwsh()
    const server = await startPwsh({ 'jobs.enableRunInBackground': 'false' })
    const cwd = temporaryDirectory()
    await server.ask('PUT', '/sessions/s', { cwd })
    const { body } = await server.ask('POST', '/invoke', {
      name: 'pwsh',
      arguments: { command: 'touch canary', description: 'x', run_in_background: true },
      session: 's'
    })
    expect(body.isError).toBe(true)
    expect(() => readFileSync(join(cwd, 'canary'))).toThrow(/ENOENT/)
  })

  it('a server that is to have it and cannot does not start', async () => {
    setPath(temporaryDirectory())
    await expect(startPwsh()).rejects.toThrow(
      'shell.executor is pwsh-local, and there is no program "pwsh" on the PATH'
    )
  })
})
