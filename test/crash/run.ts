// `npm run crash [-- --kills N] [--seed N] [--home DIR]`: kills the built server again and again (docs/storage.md).
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { crashAgainAndAgain, removeTraces } from './harness.ts'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '25' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    home: { type: 'string', default: join(mkdtempSync(join(tmpdir(), 'toolwright-crash-')), 'home') }
  }
})
const { home } = values
const [kills, seed] = [Number(values.kills), Number(values.seed)]
console.log(`${kills} kills, seed ${seed}, in ${home}`)
const startedAt = performance.now()
try {
  const report = await crashAgainAndAgain({
    home,
    kills,
    seed,
    onRound: (round) => {
      if (round % 25 === 0) console.log(`${round} kills`)
    }
  })
  console.log(JSON.stringify({ ...report, seconds: Math.round((performance.now() - startedAt) / 1000) }))
  removeTraces(home)
} catch (error) {
  console.error(`seed ${seed}: ${(error as Error).stack}\nWhat is left is in ${home}`)
  process.exit(1)
}
