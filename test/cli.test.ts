import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { execa } from 'execa'
import { describe, expect, it } from 'vitest'
import { built } from './helpers/built.ts'
import { temporaryDirectory } from './helpers/temporary-directory.ts'

const toolwright = (args: string[], env: Record<string, string> = {}) =>
  execa('node', [built.cli, ...args], {
    env: { PATH: process.env['PATH'], ...env },
    extendEnv: false,
    reject: false
  })

// Each case is a process of its own, which takes its time on a busy machine.
describe('toolwright', { timeout: 60_000 }, () => {
  it('config prints every value with its source, secrets masked', async () => {
    const file = join(temporaryDirectory(), 'c.json')
    writeFileSync(file, '{"http":{"maxHeadersCount":7}}')
    const { stdout, exitCode } = await toolwright(
      [
        'config',
        '--config',
        file,
        '--port',
        '80',
        '--set',
        'log.level=warn',
        '--set=calls.maxQueued=3',
        '--allow-remote'
      ],
      { TOOLWRIGHT_TOKEN: 'canary', TOOLWRIGHT_HOME: '/h' }
    )
    expect(exitCode).toBe(0)
    expect(stdout).not.toContain('canary')
    for (const line of [
      /^port = 80 +# flag port$/m,
      /^log\.level = "warn" +# flag log\.level$/m,
      /^calls\.maxQueued = 3 +# flag calls\.maxQueued$/m,
      /^allowRemote = true +# flag allowRemote$/m,
      /^home = "\/h" +# environment TOOLWRIGHT_HOME$/m,
      /^http\.maxHeadersCount = 7 +# file \S+c\.json:1$/m,
      /^auth\.token = "\[secret\]" +# environment TOOLWRIGHT_TOKEN$/m
    ]) {
      expect(stdout).toMatch(line)
    }
  })

  it('a configuration that is wrong is named on standard error, exit 78', async () => {
    await Promise.all(
      ['config', 'serve'].map(async (command) => {
        const { stdout, stderr, exitCode } = await toolwright([command, '--host', '0.0.0.0'])
        expect([command, exitCode, stdout]).toEqual([command, 78, ''])
        expect(stderr).toContain('allowRemote')
        expect(stderr).not.toMatch(/^\s+at /m)
      })
    )
  })

  it('what is no command or no setting is told so, exit 64', async () => {
    const wrong = [['nonsense'], ['config', 'more'], ['config', '--nonsense'], ['config', '--set', 'x']]
    await Promise.all(
      wrong.map(async (args) => {
        const { exitCode, stdout, stderr } = await toolwright(args)
        expect([args, exitCode, stdout]).toEqual([args, 64, ''])
        expect(stderr).toMatch(/^toolwright: /)
      })
    )
  })
})
