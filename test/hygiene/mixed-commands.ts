import { expect } from 'vitest'
import { processesWith, uniqueSleep } from '../helpers/processes.ts'
import type { RunningServer } from '../helpers/running-server.ts'
import { until } from '../helpers/until.ts'

/** One lane's calls, in sessions of its own: those of one session wait for each other. */
export class Lane {
  readonly #server: RunningServer
  readonly session: string
  #calls = 0

  constructor(server: RunningServer, session: string) {
    this.#server = server
    this.session = session
  }

  /** Where commands are confined, if the server confines this session (`confine`). */
  get confinedSession(): string {
    return `${this.session}-confined`
  }

  async confine(): Promise<void> {
    await this.use('bash', { command: 'true', description: 'x' }, this.confinedSession)
    const path = `/sessions/${this.confinedSession}/permissions`
    const { status } = await this.#server.request(path, { preset: 'workspace-write' }, { method: 'PUT' })
    expect(status).toBe(200)
  }

  /** The value of a call that must succeed. */
  async use(name: string, args: object, session = this.session): Promise<any> {
    const { status, body } = await this.#server.request('/invoke', { session, name, arguments: args })
    if (status !== 200 || body.isError) throw new Error(`${name} ${JSON.stringify(args)}: ${JSON.stringify(body)}`)
    return body.value
  }

  bash(command: string, more: object = {}, session?: string): Promise<any> {
    return this.use('bash', { command, description: 'x', ...more }, session)
  }

  /** A call that is cancelled once its process runs. */
  async cancelled(command: string, sleep: string): Promise<void> {
    const callId = `c${this.#calls++}`
    const body = { session: this.session, callId, name: 'bash', arguments: { command, description: 'x' } }
    const answer = this.#server.request('/invoke', body)
    await until(() => processesWith(`sleep ${sleep}`).length > 0)
    await this.#server.request(`/calls/${this.session}/${callId}/cancel`, {})
    expect((await answer).body.error.info.code).toBe('ABORTED')
  }

  /** A call whose caller does not wait for the answer. */
  async left(command: string): Promise<void> {
    const body = { session: this.session, name: 'bash', arguments: { command, description: 'x' } }
    const connection = new AbortController()
    const answer = this.#server.request('/invoke', body, { signal: connection.signal })
    setTimeout(() => connection.abort(), 20)
    await answer.catch((error: unknown) => expect(error).toMatchObject({ name: 'AbortError' }))
  }
}

type Kind = (lane: Lane, sleep: string) => Promise<void>

const ends =
  (command: string, facts: object): Kind =>
  async (lane) =>
    expect(await lane.bash(command)).toMatchObject(facts)

/** A command that its timeout ends; `SLEEP` is a number of seconds that no other has. */
const timesOut =
  (command: string, confined = false): Kind =>
  async (lane, sleep) => {
    const session = confined ? lane.confinedSession : lane.session
    const value = await lane.bash(command.replaceAll('SLEEP', sleep), { timeoutMs: 100 }, session)
    expect(value).toMatchObject({ timedOut: true, aborted: false })
    expect(processesWith(sleep)).toEqual([])
  }

/** What agents do with the commands of a server, good and bad; none leaves anything that lasts. */
export const kinds: Kind[] = [
  ends('true', { exitCode: 0 }),
  ends('echo out; echo err >&2; exit 3', { exitCode: 3 }),
  ends('kill -KILL $$', { exitCode: null, signal: 'SIGKILL' }),
  ends('exec no-such-program', { exitCode: 127 }),
  ends('seq 1 20000', { exitCode: 0, stdout: { truncated: true } }),
  ends('sleep 0.4 & echo left', { exitCode: 0, stdout: { text: 'left\n' } }),
  ends("(setsid sh -c '(sleep 0.4 >/dev/null 2>&1 &)' &)", { exitCode: 0 }),
  timesOut('sleep SLEEP'),
  timesOut("trap '' TERM; sleep SLEEP; sleep SLEEP"),
  timesOut('setsid sleep SLEEP & wait'),
  timesOut("(setsid bash -c '(sleep SLEEP &); sleep SLEEP' &); sleep SLEEP"),
  timesOut('yes SLEEP'),
  timesOut('cat <(sleep SLEEP)'),
  (lane, sleep) => lane.cancelled(`setsid sleep ${sleep} & sleep ${sleep}`, sleep),
  (lane) => lane.left('sleep 0.2; seq 1 1000'),
  async (lane) => {
    const { jobId } = await lane.bash('seq 1 20000; exit 4', { run_in_background: true })
    const { job } = await lane.use('job_output', { job_id: jobId, wait: true })
    expect(job).toMatchObject({ status: 'completed', detail: 'exit code: 4' })
  },
  async (lane, sleep) => {
    const { jobId } = await lane.bash(`setsid sleep ${sleep} & sleep ${sleep}`, { run_in_background: true })
    await lane.use('job_kill', { job_id: jobId })
    expect((await lane.use('job_output', { job_id: jobId, wait: true })).job.status).toBe('killed')
    expect(processesWith(sleep)).toEqual([])
  },
  async (lane, sleep) => {
    const { sessionId } = await lane.use('terminal_open', { type: 'shell' })
    await lane.use('terminal_send', { sessionId, text: `setsid sleep ${sleep} & seq 1 1000` })
    await lane.use('terminal_close', { sessionId })
    expect(processesWith(sleep)).toEqual([])
  },
  async (lane) => {
    const { sessionId } = await lane.use('terminal_open', { type: 'shell' })
    const { waitReason } = await lane.use('terminal_send', { sessionId, text: 'exit 7' })
    expect(waitReason).toBe('session_exit')
    await lane.use('terminal_close', { sessionId })
  }
]

/** The same where commands are confined: there what a command leaves ends with it. */
export const confinedKinds: Kind[] = [
  async (lane, sleep) => {
    const command = `env -i setsid sh -c '(sleep ${sleep} >/dev/null 2>&1 &)'; echo hi`
    expect(await lane.bash(command, {}, lane.confinedSession)).toMatchObject({ exitCode: 0, stdout: { text: 'hi\n' } })
    await until(() => processesWith(sleep).length === 0)
  },
  timesOut("env -i setsid sh -c '(sleep SLEEP &)'; sleep SLEEP", true)
]

/** Runs `count` commands of all kinds in turn, some at a time. */
export async function runMixed(lanes: readonly Lane[], all: readonly Kind[], count: number): Promise<void> {
  let next = 0
  const work = async (lane: Lane): Promise<void> => {
    while (next < count) await all[next++ % all.length]!(lane, uniqueSleep())
  }
  await Promise.all(lanes.map(work))
}
