import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { crashAgainAndAgain, removeTraces } from './harness.ts'

it('C1: killed 25 times at random moments, the server loses nothing acknowledged and does nothing twice', async () => {
  const home = join(temporaryDirectory(), 'home')
  onTestFinished(() => removeTraces(home))
  const seed = Number(process.env['CRASH_SEED'] ?? Date.now() % 1_000_000)
  console.log(`crash seed ${seed}`)
  const report = await crashAgainAndAgain({ home, kills: 25, seed })
  expect(report.kills).toBe(25)
  expect(report.acked).toBeGreaterThan(100)
  expect(report.unknown).toBeGreaterThan(0)
}, 300_000)
