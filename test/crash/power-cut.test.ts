import { execFileSync } from 'node:child_process'
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeSync
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { verifyLog } from '../../server/event-log/sqlite/verify-log.js'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { Background } from './background.ts'
import { featuresOf, removeTraces } from './harness.ts'
import { Load } from './load.ts'
import { Oracle } from './oracle.ts'
import { Random } from './random.ts'
import { bodiesFile, ServerProcess } from './server-process.ts'

const blockBytes = 4096

/** Of what was written and not synced, any part may have reached the disk all the same, in any order: some blocks did. */
function tear(live: string, disk: string, random: Random): void {
  for (const name of readdirSync(disk)) {
    if (!existsSync(join(live, name)) || !statSync(join(live, name)).isFile()) continue
    const bytes = readFileSync(join(live, name))
    const handle = openSync(join(disk, name), 'r+')
    for (let at = 0; at < bytes.length; at += blockBytes) {
      if (random.next() < 0.5) writeSync(handle, bytes.subarray(at, at + blockBytes), 0, undefined, at)
    }
    closeSync(handle)
  }
}

it.each([
  ['nothing unsynced is kept', false],
  ['some unsynced blocks are kept', true]
])(
  'C2: the whole server loses nothing acknowledged in a power cut; %s',
  async (_name, isTorn) => {
    const root = temporaryDirectory()
    const shim = join(root, 'powercut.so')
    const source = fileURLToPath(new URL('../fixtures/powercut.c', import.meta.url))
    execFileSync('cc', ['-shared', '-fPIC', '-O1', '-w', '-o', shim, source, '-ldl'])
    const seed = Number(process.env['CRASH_SEED'] ?? Date.now() % 1_000_000)
    console.log(`power cut seed ${seed}`)
    const random = new Random(seed)
    for (let round = 0; round < 3; round += 1) {
      const [home, disk] = [join(root, `live-${round}`), join(root, `disk-${round}`)]
      for (const made of [home, disk]) mkdirSync(made)
      onTestFinished(() => [home, disk].forEach(removeTraces))
      const server = await ServerProcess.start({ home, env: { LD_PRELOAD: shim, PC_DIR: home, PC_SHADOW: disk } })
      const background = new Background(random, home)
      const load = new Load(random, await featuresOf(server), background)
      const running = load.run(server)
      await wait(random.between(300, 1500))
      await server.kill()
      await running
      if (isTorn) tear(home, disk, random)
      if (existsSync(bodiesFile(home))) copyFileSync(bodiesFile(home), bodiesFile(disk))

      const next = await ServerProcess.start({ home: disk })
      await background.check(next)
      await new Oracle(disk).check(next, load)
      await load.settle(next)
      await next.stop()
      // To the server of another directory they are nobody's: a machine without power has none.
      for (const pid of background.strays()) process.kill(pid, 'SIGKILL')
      expect(load.acked.length).toBeGreaterThan(0)
      expect(verifyLog(disk).damagedSessions).toEqual([])
    }
  },
  180_000
)
