import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { BashShell } from '../../../server/backends/shell/bash-shell.ts'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const trees = new ManagedTrees({ dataDirectory: import.meta.dirname })
afterAll(() => trees.dispose())

function start(command: string) {
  const cwd = temporaryDirectory()
  const shell = new BashShell(trees, { cwd, limits: { graceMs: 300 } })
  return { command: shell.start(shell.resolve({ command })), cwd }
}

describe('a command in the background (backends.md §3.1)', () => {
  it('loses nothing to readers who come as it ends', async () => {
    const expected = Array.from({ length: 50 }, (_, at) => `${at + 1}\n`).join('')
    const read = async (): Promise<{ text: string; lossy: boolean; pieces: string }> => {
      const { command } = start('seq 1 50')
      let [text, pieces, at, lossy] = ['', '', 0, false]
      for (let isOver = false; !isOver;) {
        isOver = command.status !== 'running'
        const [delta, piece] = await Promise.all([command.readOutput(), command.readPiece('stdout', at, 1000)])
        text += delta.text
        pieces += piece.text
        at = piece.nextOffset
        lossy ||= delta.lossy || piece.lossy
      }
      return { text, lossy, pieces }
    }
    for (const result of await Promise.all(Array.from({ length: 20 }, read))) {
      expect(result).toEqual({ text: expected, lossy: false, pieces: expected })
    }
  })

  it('is done, when it was killed, once all of it is gone; kill counts once', async () => {
    const sleep = uniqueSleep()
    const { command, cwd } = start(`trap '' TERM; setsid sleep ${sleep} & touch ready; wait; wait`)
    await until(() => existsSync(join(cwd, 'ready')))
    expect([command.kill(), command.kill()]).toEqual([true, false])
    await command.done
    expect(processesWith(sleep)).toEqual([])
    expect([command.status, command.kill()]).toEqual(['killed', false])
  })

  it('ends what it left when it is told to', async () => {
    const sleep = uniqueSleep()
    const { command } = start(`setsid sleep ${sleep} & echo started`)
    await command.done
    await until(() => processesWith(sleep).length > 0)
    await command.endLeftovers()
    expect(processesWith(sleep)).toEqual([])
    expect(command.status).toBe('completed')
    await command.endLeftovers()
  })

  it('has no output where nothing was started', async () => {
    const shell = new BashShell(trees, { limits: { graceMs: 300 } })
    const command = shell.start(shell.resolve({ command: 'x'.repeat(200_000) }))
    await command.done
    expect(command).toMatchObject({ status: 'killed', exitCode: null, signal: null })
    expect(await command.readPiece('stderr', 9, 9)).toEqual({ text: '', from: 0, nextOffset: 0, lossy: false })
    await command.endLeftovers()
    expect((await command.readOutput()).text).toMatch(/^\[stderr\]\nthe command has 200000 bytes/)
    expect((await command.readOutput()).text).toBe('')
  })
})
