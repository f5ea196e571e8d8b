import { existsSync, rmSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { verifyLog } from '../../server/event-log/sqlite/verify-log.js'
import { until } from '../helpers/until.ts'
import { Background } from './background.ts'
import { type Features, Load } from './load.ts'
import { Oracle } from './oracle.ts'
import { Random } from './random.ts'
import { alive, ServerProcess } from './server-process.ts'
import { StreamSubscriber, Subscriber } from './subscriber.ts'

export interface HarnessOptions {
  /** A directory that is not there yet. */
  home: string
  kills: number
  seed: number
  /** Hears of each round that went well. */
  onRound?: (round: number) => void
}

export interface HarnessReport extends Features {
  kills: number
  acked: number
  events: number
  /** Calls whose outcome nobody knows: the server died while they ran. */
  unknown: number
  /** Background jobs that were started. */
  jobs: number
  orphansEnded: number
}

/**
 * Kills the built server again and again under a mixed load and checks after each start that nothing acknowledged is lost and nothing
 * was done twice (reliability.md C1). Rejects with what is wrong; the same seed makes the same load and the same delays.
 */
export async function crashAgainAndAgain({ home, kills, seed, onRound }: HarnessOptions): Promise<HarnessReport> {
  if (existsSync(home)) throw new Error(`${home} is there already`)
  const random = new Random(seed)
  let server = await ServerProcess.start({ home })
  const features = await featuresOf(server)
  const background = new Background(random, home)
  const load = new Load(random, features, background)
  const oracle = new Oracle(home)
  const subscribers = {
    all: new Subscriber(),
    one: new Subscriber({ session: 's-0', events: ['tool/*'] }),
    stream: new StreamSubscriber()
  }
  const connect = (): Promise<unknown> =>
    Promise.all(Object.values(subscribers).map((subscriber) => subscriber.connect(server)))
  await connect()
  let orphansEnded = 0
  for (let round = 1; round <= kills; round += 1) {
    const running = load.run(server)
    // A failure of the load shows as soon as it happens, and not only after the kill.
    await Promise.race([wait(random.between(20, 800)), running])
    const orphans = await server.kill()
    await running
    server = await ServerProcess.start({ home })
    await until(() => alive(orphans).length === 0 && background.strays().length === 0, 2000)
    orphansEnded += orphans.length
    await background.check(server)
    await connect()
    await oracle.check(server, load, subscribers)
    await load.settle(server)
    onRound?.(round)
  }
  await oracle.check(server, load, subscribers)
  await server.stop()
  if (background.strays().length > 0) throw new Error('what the load started outlives a server that was stopped')
  const { events, damagedSessions } = verifyLog(home)
  if (damagedSessions.length > 0) throw new Error(`the hash chains of ${damagedSessions.join()} are broken`)
  const unknown = load.acked.filter(({ code }) => code === 'TOOL_OUTCOME_UNKNOWN').length
  return { ...features, kills, acked: load.acked.length, events, unknown, jobs: background.jobs, orphansEnded }
}

/** What is mounted is found out as a client does. */
export async function featuresOf(server: ServerProcess): Promise<Features> {
  const approvals = await server.request('GET', '/approvals?state=pending')
  const code = await server.request('GET', '/tools/run_code')
  return { approvals: approvals.status === 200, code: code.status === 200 }
}

/** Removes all that a run left beside its home. */
export function removeTraces(home: string): void {
  for (const path of [home, `${home}.bodies`, `${home}.config.json`]) rmSync(path, { recursive: true, force: true })
}
