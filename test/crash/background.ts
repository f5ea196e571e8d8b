import { readdirSync, readFileSync } from 'node:fs'
import type { Sent } from './load.ts'
import type { Random } from './random.ts'
import { type ServerProcess, Wrong } from './server-process.ts'

/** What a command does, and so how its job can end: by itself with exit code 3, or never, or as a terminal takes the next input. */
type Work = 'quick' | 'long' | 'send'

/** A job as `GET /jobs` and `job_output` tell of it. */
interface Told {
  id: string
  label: string
  status: string
  detail?: string
  startedAt: number
  finishedAt?: number
  session?: string
}

/** What a call was answered; `code` is that of its error. */
interface Answer {
  value: any
  code: string | undefined
  isReplayed: boolean
}

interface KnownJob {
  session: string
  callId: string
  /** What was told of its end, which must hold from then on. */
  end?: string
}

/** Finished jobs of one session that stay listed (`jobs.maxFinishedPerOwner`): the oldest make room. */
const listedPerSession = 100

const seconds = 60

/**
 * The background jobs and terminals of the load, and what must hold of them (backends.md §4.1, §5.1): a job belongs to the session that
 * started it, has one id for good, and ends once, with the reason that is true; terminals end with their server. Each process that they start
 * is marked, so that one that outlives its server is seen wherever it went.
 */
export class Background {
  readonly #random: Random
  readonly #mark: string
  readonly #starts = new Map<string, { session: string; work: Work }>()
  readonly #jobs = new Map<string, KnownJob>()
  readonly #jobOf = new Map<string, string>()
  readonly #killed = new Set<string>()
  readonly #forgotten = new Set<string>()
  // Of this life of the server alone: the ids of terminals begin anew with each.
  readonly #terminals = new Map<string, string>()

  constructor(random: Random, mark: string) {
    this.#random = random
    this.#mark = mark
  }

  get jobs(): number {
    return this.#jobs.size
  }

  /** Marked processes that live, of whichever server. */
  strays(): number[] {
    return marked(`CRASH_LIFE=${this.#mark}/`)
  }

  /** A call about a job or a terminal, now and then from a session that it does not belong to. */
  call(callId: string, session: string): Sent {
    const dice = this.#random.next()
    const isForeign = this.#random.next() < 0.25
    const job: string | undefined = this.#random.pick([...this.#jobs.keys()].slice(-20))
    const terminal: string | undefined = this.#random.pick([...this.#terminals.keys()])
    if (job !== undefined && dice > 0.6) {
      const caller = isForeign ? session : (this.#jobs.get(job)?.session ?? session)
      return { session: caller, call: this.#ofJob(callId, caller, job, (dice - 0.6) / 0.4) }
    }
    if (terminal !== undefined && dice > 0.3) {
      const caller = isForeign ? session : (this.#terminals.get(terminal) ?? session)
      return { session: caller, call: this.#ofTerminal(callId, caller, terminal, (dice - 0.3) / 0.3) }
    }
    if (dice > 0.2) return { session, call: opening(callId) }
    return { session, call: this.#job(callId, session, dice > 0.1 ? 'quick' : 'long') }
  }

  #ofJob(callId: string, caller: string, id: string, dice: number): Sent['call'] {
    if (dice < 0.7) return { callId, name: 'job_output', arguments: { job_id: id, wait: dice < 0.5, timeout_ms: 300 } }
    if (this.#jobs.get(id)?.session === caller) this.#killed.add(id)
    return { callId, name: 'job_kill', arguments: { job_id: id } }
  }

  #ofTerminal(callId: string, caller: string, sessionId: string, dice: number): Sent['call'] {
    if (dice < 0.15) return { callId, name: 'terminal_close', arguments: { sessionId } }
    const isJob = dice < 0.5
    if (isJob) this.#starts.set(callId, { session: caller, work: 'send' })
    const text = `${this.#marked(callId)}; sleep ${seconds} & setsid sleep ${seconds} & echo ${callId}-$((6 * 7))`
    return { callId, name: 'terminal_send', arguments: { sessionId, text, ...(isJob && { run_in_background: true }) } }
  }

  /** What there should be for the next kill to meet: a terminal, and a job that does not end. */
  standing(callId: () => string, session: string): Sent[] {
    return [opening(callId()), this.#job(callId(), session, 'long')].map((call) => ({ session, call }))
  }

  #job(callId: string, session: string, work: 'quick' | 'long'): Sent['call'] {
    this.#starts.set(callId, { session, work })
    const rest = work === 'quick' ? 'sleep 0.1; exit 3' : `sleep ${seconds} & wait`
    const command = `${this.#marked(callId)}; setsid sleep ${seconds} >/dev/null 2>&1 & ${rest}`
    return { callId, name: 'bash', arguments: { command, description: 'A job', run_in_background: true } }
  }

  #marked(callId: string): string {
    return `export CRASH_LIFE=${this.#mark}/${callId}`
  }

  /** Throws at an answer that must not be. */
  take({ session, call: { callId, name, arguments: args } }: Sent, { value, code, isReplayed }: Answer): void {
    if (this.#starts.has(callId) && typeof value?.jobId === 'string') this.#started(value.jobId, callId, session)
    if (code === 'TOOL_NOT_STARTED') {
      demand(!this.#jobOf.has(callId), `${callId} started ${this.#jobOf.get(callId)} and is said not to have started`)
    }
    const job = this.#jobs.get(String(args['job_id']))
    if (job !== undefined && code === undefined) {
      demand(job.session === session, `${name} of ${String(args['job_id'])} was answered to ${session}`)
      if (name === 'job_output' && value.job.finishedAt !== undefined) this.#ended(value.job)
    }
    if (job !== undefined && code === 'FOREIGN_JOB')
      demand(job.session !== session, `${String(args['job_id'])} is withheld from its owner`)
    // What an earlier server answered is of its terminals, and not of this one's with the same ids.
    if (!isReplayed) this.#takeTerminal(session, callId, name, args, { value, code })
  }

  #takeTerminal(
    session: string,
    callId: string,
    name: string,
    args: any,
    { value, code }: Omit<Answer, 'isReplayed'>
  ): void {
    if (name === 'terminal_open' && code === undefined) {
      demand(!this.#terminals.has(value.sessionId), `${value.sessionId} was opened twice`)
      this.#terminals.set(value.sessionId, session)
      return
    }
    const owner = this.#terminals.get(args.sessionId)
    if (owner === undefined) return
    if (code === undefined) demand(owner === session, `${name} of ${args.sessionId} was answered to ${session}`)
    if (code === 'FOREIGN_SESSION') demand(owner !== session, `${args.sessionId} is withheld from its owner`)
    if (name === 'terminal_send' && value?.waitReason === 'stdin_read') {
      demand(value.viewport.includes(`${callId}-42`), `${callId} shows ${JSON.stringify(value.viewport)}`)
    }
  }

  /** To be asked of a server that was just started, before anything else is. */
  async check(server: ServerProcess): Promise<void> {
    this.#terminals.clear()
    const { terminals } = (await server.request('GET', '/terminals')).body
    demand(terminals.length === 0, `a new server has terminals: ${JSON.stringify(terminals)}`)
    const listed = await this.#list(server)
    demand(new Set(listed.map(({ id }) => id)).size === listed.length, 'a job is listed twice')
    for (const job of listed) this.#checkListed(job)
    const ids = new Set(listed.map(({ id }) => id))
    for (const [id, { session }] of this.#jobs) {
      if (ids.has(id)) demand(!this.#forgotten.has(id), `${id} was forgotten and is back`)
      else this.#forgotten.add(id)
      const listedOfIt = listed.filter((job) => job.session === session).length
      demand(ids.has(id) || listedOfIt >= listedPerSession, `${id} is lost from the list`)
    }
  }

  async #list(server: ServerProcess): Promise<Told[]> {
    const all: Told[] = []
    for (let after: string | undefined = ''; after !== undefined;) {
      const { body } = await server.request('GET', `/jobs?limit=500${after === '' ? '' : `&after=${after}`}`)
      all.push(...body.jobs)
      after = body.next
    }
    return all
  }

  #checkListed(job: Told): void {
    const callId = /CRASH_LIFE=\S*\/(c-\d+)/.exec(job.label)?.[1] ?? ''
    const start = this.#starts.get(callId)
    demand(start !== undefined, `${job.id} (${job.label}) was started by nobody`)
    demand(job.session === start?.session, `${job.id} of ${start?.session} is listed for ${job.session}`)
    this.#started(job.id, callId, job.session ?? '')
    this.#ended(job)
  }

  #started(id: string, callId: string, session: string): void {
    demand((this.#jobOf.get(callId) ?? id) === id, `${callId} started ${this.#jobOf.get(callId)} and ${id}`)
    const known = this.#jobs.get(id)
    demand(known === undefined || known.callId === callId, `${id} is of ${known?.callId} and of ${callId}`)
    this.#jobOf.set(callId, id)
    if (known === undefined) this.#jobs.set(id, { session, callId })
  }

  #ended({ id, status, detail, startedAt, finishedAt }: Told): void {
    const job = this.#jobs.get(id)
    if (job === undefined) return
    const end = JSON.stringify([status, detail, startedAt, finishedAt])
    demand((job.end ?? end) === end, `the end of ${id} was told as ${job.end} and as ${end}`)
    if (job.end === undefined) {
      const work = this.#starts.get(job.callId)?.work
      const isTrue =
        status === 'lost'
          ? detail === undefined && finishedAt === undefined
          : finishedAt !== undefined &&
            finishedAt >= startedAt &&
            (status === 'killed' ? this.#killed.has(id) : status === 'completed' && canEndSo(work, detail))
      demand(isTrue, `${id} (${work}) cannot have ended as ${end}`)
    }
    job.end = end
  }
}

const opening = (callId: string): Sent['call'] => ({ callId, name: 'terminal_open', arguments: { type: 'shell' } })

/** Whether work that nobody ended can have ended with this detail. */
function canEndSo(work: Work | undefined, detail: string | undefined): boolean {
  if (work === 'quick') return detail === 'exit code: 3'
  return work === 'send' && /^(wait: \w+|session exited\b.*)$/.test(detail ?? '')
}

/** Processes with a text in their environment or their command line. */
function marked(text: string): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const isMarked = ['environ', 'cmdline'].some((file) =>
        readFileSync(`/proc/${name}/${file}`, 'latin1').includes(text)
      )
      return isMarked ? [Number(name)] : []
    } catch {
      // It ended while we looked.
      return []
    }
  })
}

function demand(holds: boolean, otherwise: string): void {
  if (!holds) throw new Wrong(otherwise)
}
