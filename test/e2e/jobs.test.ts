import { expect, it } from 'vitest'
import { processesWith, uniqueSleep } from '../helpers/processes.ts'
import { RunningServer } from '../helpers/running-server.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

const settings = { shell: { executor: 'bash-local', graceMs: 500 }, codeRuntime: { backend: 'off' } }

const invoke = async (server: RunningServer, name: string, args: Record<string, unknown>): Promise<any> =>
  (await server.request('/invoke', { session: 's1', name, arguments: args })).body

const start = async (server: RunningServer, command: string): Promise<string> =>
  (await invoke(server, 'bash', { command, description: 'x', run_in_background: true })).value.jobId

const listed = async (server: RunningServer): Promise<any[]> => (await server.request('/jobs')).body.jobs

it('R8 a killed server leaves no job running; the next one lists them as lost and counts on', async () => {
  const home = temporaryDirectory()
  const first = await RunningServer.start(home, settings)
  const sleep = uniqueSleep()
  for (let i = 0; i < 4; i++) await start(first, `setsid sleep ${sleep} & sleep ${sleep}; true`)
  const finished = await start(first, 'exit 3')
  await until(async () => (await listed(first)).some(({ id, status }) => id === finished && status === 'completed'))
  await invoke(first, 'job_kill', { job_id: 'bash-2' })
  await until(() => processesWith(sleep).length >= 6)
  await first.end('SIGKILL')

  const second = await RunningServer.start(home, settings)
  await until(() => processesWith(sleep).length === 0)
  const jobs = await listed(second)
  expect(jobs.map(({ id, status }) => `${id} ${status}`)).toEqual([
    'bash-1 lost',
    expect.stringMatching(/^bash-2 (lost|killed)$/),
    'bash-3 lost',
    'bash-4 lost',
    'bash-5 completed'
  ])
  expect(jobs[4]).toMatchObject({ detail: 'exit code: 3', session: 's1', scope: 'global' })
  const { content, value } = await invoke(second, 'job_output', { job_id: 'bash-1', wait: true })
  expect(value.job).toMatchObject({ id: 'bash-1', status: 'lost' })
  expect(content[0].text).toMatch(/\n\[status: lost\]$/)
  expect((await invoke(second, 'job_kill', { job_id: 'bash-1' })).value.outcome).toBe('already-finished')
  const foreign = await second.request('/invoke', {
    session: 's2',
    name: 'job_output',
    arguments: { job_id: 'bash-1' }
  })
  expect(foreign.body.error.info.code).toBe('FOREIGN_JOB')
  expect(await start(second, 'true')).toBe('bash-6')

  // A server that ends well ends its jobs, and they are lost to the next one all the same.
  const last = uniqueSleep()
  expect(await start(second, `sleep ${last}; true`)).toBe('bash-7')
  await until(() => processesWith(last).length > 0)
  expect(await second.end('SIGTERM')).toBe(0)
  expect(processesWith(last)).toEqual([])
  const third = await RunningServer.start(home, settings)
  const again = await listed(third)
  expect(again.map(({ id }) => id)).toEqual(['bash-1', 'bash-2', 'bash-3', 'bash-4', 'bash-5', 'bash-6', 'bash-7'])
  expect(again.at(-1)).toMatchObject({ status: 'lost' })
  expect(await start(third, 'true')).toBe('bash-8')
})
