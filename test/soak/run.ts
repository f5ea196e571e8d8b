// `npm run soak [-- --seconds N] [--seed N]`: an hour of mixed load with faults against the built server (docs/operations.md).
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { removeTraces } from '../crash/harness.ts'
import { soak } from './soak.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '3600' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) }
  }
})
const home = join(mkdtempSync(join(tmpdir(), 'toolwright-soak-')), 'home')
const [seconds, seed] = [Number(values.seconds), Number(values.seed)]
console.log(`${seconds} seconds, seed ${seed}, in ${home}`)
try {
  console.log(JSON.stringify(await soak({ home, seconds, seed }), null, 1))
  removeTraces(home)
} catch (error) {
  console.error(`seed ${seed}: ${(error as Error).stack}\nWhat is left is in ${home}`)
  process.exit(1)
}
