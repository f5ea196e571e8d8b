import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { commands } from '../../server/commands/commands.ts'
import { exitCodeOf, exitCodes } from '../../server/commands/exit-codes.ts'
import { commandHelp } from '../../server/commands/help.ts'
import { errorTable } from '../../server/errors.ts'
import { toolwright } from '../helpers/command-line.ts'

const page = join(import.meta.dirname, '../../docs/command-line.md')

describe('help', () => {
  it('docs/command-line.md is what the help says', async () => {
    const end = '-u -->\n'
    const written = readFileSync(page, 'utf8')
    const introduction = written.slice(0, written.indexOf(end) + end.length)
    const help = [...commands.values()].map(
      (command) => `\n## ${command.name}\n\n\`\`\`text\n${commandHelp(command)}\`\`\`\n`
    )
    const { stdout } = await toolwright(['help'])
    await expect(`${introduction}\n\`\`\`text\n${stdout}\`\`\`\n${help.join('')}`).toMatchFileSnapshot(page)
  })

  it('of all and of each command, however it is asked for', async () => {
    const general = await toolwright(['help'])
    expect([general.exitCode, general.stderr]).toEqual([0, ''])
    for (const words of [['--help'], ['-h'], ['help', '--help']]) expect(await toolwright(words)).toEqual(general)
    for (const [name, command] of commands) {
      const help = { exitCode: 0, stdout: commandHelp(command), stderr: '' }
      for (const words of [
        ['help', name],
        [name, '--help'],
        [name, '-h', '--nonsense']
      ]) {
        expect(await toolwright(words)).toEqual(help)
      }
      expect(general.stdout).toMatch(new RegExp(`^  ${name} +\\S`, 'm'))
      expect(help.stdout).toMatch(new RegExp(`^Usage: toolwright ${name}\\b`))
      expect(help.stdout).toContain(`  toolwright ${name}`)
      for (const option of Object.keys(command.options))
        expect(help.stdout).toMatch(new RegExp(`^  --${option}\\b`, 'm'))
      expect(Math.max(...help.stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(120)
    }
    // What comes after -- is no option.
    expect((await toolwright(['serve', '--', '--help'])).exitCode).toBe(64)
  })

  it('names every exit code, and each error of the server has one', async () => {
    const { stdout } = await toolwright(['help'])
    for (const [code, meaning] of Object.entries(exitCodes)) expect(stdout).toContain(`  ${code.padEnd(3)}  ${meaning}`)
    for (const { status } of Object.values(errorTable)) expect(exitCodes).toHaveProperty(String(exitCodeOf(status)))
  })

  it('--version is that of the package', async () => {
    const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as {
      version: string
    }
    expect(await toolwright(['--version'])).toEqual({ exitCode: 0, stdout: `${version}\n`, stderr: '' })
  })

  it('what is no command or option is told so, exit 64', async () => {
    for (const words of [
      [],
      ['nonsense'],
      ['constructor'],
      ['help', 'nonsense'],
      ['tools', '--nonsense'],
      ['tools', 'a', 'b'],
      ['export'],
      ['tools', '--json=x'],
      ['events', '--after']
    ]) {
      const { exitCode, stdout, stderr } = await toolwright(words)
      expect([words, exitCode, stdout]).toEqual([words, 64, ''])
      expect(stderr).toMatch(/^toolwright: /)
      expect(stderr).toContain('Usage: toolwright')
    }
    expect((await toolwright(['a\x1b[2J'])).stderr).not.toContain('\x1b')
  })
})
