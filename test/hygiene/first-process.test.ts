import { execaSync } from 'execa'
import { expect, it } from 'vitest'
import { RunningServer } from '../helpers/running-server.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'
import { Lane } from './mixed-commands.ts'

/** As the image starts it, in a PID namespace in place of a container. */
const launcher = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child', 'tini', '-g', '--']
const isPossible = !execaSync(launcher[0]!, [...launcher.slice(1), 'true'], { reject: false }).failed

// Without tini, or the right to make a PID namespace, there is no first process to be.
it.skipIf(!isPossible)('F13 as the first process of a container it keeps no zombie', async () => {
  const settings = { shell: { executor: 'bash-local' }, codeRuntime: { backend: 'off' } }
  const server = await RunningServer.start(temporaryDirectory(), settings, { launcher })
  const lanes = Array.from({ length: 4 }, (_, at) => new Lane(server, `s${at}`))
  expect((await lanes[0]!.bash('cat /proc/1/comm')).stdout.text).toBe('tini\n')
  const leaving = "for n in $(seq 25); do sh -c '(sleep 0.2 &); exit'; done"
  for (let round = 0; round < 2; round += 1) await Promise.all(lanes.map((lane) => lane.bash(leaving)))
  const states = async (): Promise<string> => {
    // The name in parentheses may hold spaces.
    const { stdout } = await lanes[0]!.bash(
      String.raw`cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | cut -d' ' -f1`
    )
    return stdout.text
  }
  await until(async () => !(await states()).includes('Z'))
  expect(await states()).toContain('S')
})
