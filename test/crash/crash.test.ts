import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { crashAgainAndAgain, removeTraces } from './harness.ts'

/** `CRASH_KILLS` sets another number; `npm run crash` is the long form. */
const kills = Number(process.env['CRASH_KILLS'] ?? 25)

it(
  `C1: killed ${kills} times at random moments, the server loses nothing acknowledged and does nothing twice`,
  async () => {
    const home = join(temporaryDirectory(), 'home')
    onTestFinished(() => removeTraces(home))
    const seed = Number(process.env['CRASH_SEED'] ?? Date.now() % 1_000_000)
    console.log(`crash seed ${seed}`)
    const report = await crashAgainAndAgain({ home, kills, seed })
    expect(report.kills).toBe(kills)
    expect(report.acked).toBeGreaterThan(100)
    expect(report.unknown).toBeGreaterThan(0)
    expect(report.jobs).toBeGreaterThan(0)
    expect(report.orphansEnded).toBeGreaterThan(0)
  },
  kills * 60_000
)
