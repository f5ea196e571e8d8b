import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { callCard } from '../../server/tools/cards.ts'
import { createLogger } from '../../plugins/engine/logging.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { HomeApp } from '../helpers/home-app.ts'
import { until } from '../helpers/until.ts'

/** What terminals act upon, or answer. */
const corpus = [
  '\u001b]52;c;ZXZpbA==\u0007', // writes the clipboard
  '\u001b]8;;javascript:alert(1)\u0007click\u001b]8;;\u0007',
  '\u001bP$qm\u001b\\', // DECRQSS, answered
  '\u001b[6n', // cursor position, answered
  '\u001b[c', // device attributes, answered
  '\u001b[21t', // title report, answered
  '\u001b]10;?\u0007', // colour, answered
  '\u001b[2J\u001b[1;1Hhidden',
  '\u009b31m',
  '\u001b['.repeat(1000)
]

describe('S21 escape sequences', () => {
  it('S21 in a terminal: nothing answers them into the command’s input, and the model gets their text alone', async () => {
    const server = await HomeApp.start()
    const file = join(server.home, 'corpus')
    writeFileSync(file, `${corpus.join('\n')}\nend\n`)
    const call = async (name: string, args: unknown): Promise<any> =>
      (await server.ask('POST', '/invoke', { session: 's', name, arguments: args })).body
    const { sessionId } = (await call('terminal_open', { type: 'shell' })).value
    const command = `cat '${file}'; read -rs -t 1 -n 1 byte; echo "got=[$byte]"; echo done-$((1+1))`
    let text = JSON.stringify((await call('terminal_send', { sessionId, text: command })).content)
    await until(async () => {
      text += JSON.stringify((await call('terminal_read', { sessionId })).content)
      return text.includes('done-2')
    })
    expect(text).toContain('got=[]')
    expect(text).not.toMatch(/\\u001b|\\u0007|\u009b/)
    await call('terminal_close', { sessionId })
  })

  it('S21 in the server’s log: one line, with nothing in it that a terminal acts upon', () => {
    const lines: string[] = []
    const logger = createLogger({ level: 'info' }, { stream: { write: (line: string) => void lines.push(line) } })
    for (const text of [...corpus, 'two\nlines', 'a\u2028b', '\r\u001b[2K{"level":50}']) logger.info({ text }, text)
    expect(lines).toHaveLength(corpus.length + 3)
    for (const line of lines) {
      expect(() => JSON.parse(line) as unknown).not.toThrow()
      // oxlint-disable-next-line no-control-regex -- controls are what must not be there
      expect(line.slice(0, -1)).not.toMatch(/[\u0000-\u001f]/)
    }
  })
})

describe('S22 what an approver reads', () => {
  const card = (command: string) =>
    callCard(
      bareTool('bash', { presentCall: (args) => ({ card: 'terminal', title: (args as { command: string }).command }) }),
      JSON.stringify({ command })
    )

  it('S22 is the whole command, with what cannot be seen made visible', () => {
    const command = `echo \u202Eevil\u202C\u200B${' '.repeat(5_000)}; rm -rf \u001b[8m/\u001b[0m\rls`
    expect(card(command)).toEqual({
      card: 'terminal',
      title: `echo \\u{202e}evil\\u{202c}\\u{200b}${' '.repeat(5_000)}; rm -rf \\u{1b}[8m/\\u{1b}[0m\\u{d}ls`
    })
  })

  it('S22 tabs, line ends and letters of any script are what they seem', () => {
    const command = 'a\tb\nc\r\nd 你好 שלום é 👍'
    expect(card(command)).toEqual({ card: 'terminal', title: command })
  })

  it('S22 diffs, paths and texts likewise; what is data stays as it is', () => {
    const shown = callCard(
      bareTool('edit', {
        presentCall: () => ({
          card: 'generic',
          title: '\u2066x',
          rawInput: { text: '\u2066x' },
          content: [
            { type: 'text', text: '\u2066x' },
            { type: 'other', deep: ['\u2066x'] }
          ],
          locations: [{ path: '\u2066x', line: 3 }]
        })
      }),
      '{}'
    )
    expect(shown).toEqual({
      card: 'generic',
      title: '\\u{2066}x',
      rawInput: { text: '\u2066x' },
      content: [
        { type: 'text', text: '\\u{2066}x' },
        { type: 'other', deep: ['\u2066x'] }
      ],
      locations: [{ path: '\\u{2066}x', line: 3 }]
    })
  })
})
