import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { removeTraces } from '../crash/harness.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { soak } from './soak.ts'

/** `SOAK_SECONDS` sets another length; `npm run soak` is the form of an hour. */
const seconds = Number(process.env['SOAK_SECONDS'] ?? 120)

it(`${seconds} seconds of mixed load with faults leave the server as it was`, { timeout: 400_000 }, async () => {
  const home = join(temporaryDirectory(), 'home')
  onTestFinished(() => removeTraces(home))
  const seed = Date.now() % 1_000_000
  console.log(`soak seed ${seed}`)
  const report = await soak({ home, seconds, seed })
  console.log(JSON.stringify(report))
  expect(report.extra).toEqual({ descriptors: [], descendants: [] })
  expect(report.calls).toBeGreaterThan(100)
  expect(report.faults).toBeGreaterThan(50)
  const [first = 0] = report.memoryMb
  expect((report.memoryMb.at(-1) ?? 0) - first).toBeLessThan(150)
})
