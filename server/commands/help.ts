import type { Option } from '../command-line.ts'
import { type Command, usageLine } from './command.ts'
import { exitCodes } from './exit-codes.ts'

/** The help of one command, made from its definition. */
export function commandHelp(command: Command): string {
  const paragraphs = [usageLine(command), capital(command.summary), ...(command.details ?? [])]
  const options = [...Object.entries(command.options), ['help', helpOption] as const].map(
    ([name, { value, description }]) => [`--${name}${value === undefined ? '' : ` ${value}`}`, description] as const
  )
  const examples = command.examples.map(([line, purpose]) => [`toolwright ${line}`, `# ${purpose}`] as const)
  return [
    ...paragraphs.map((text) => `${wrap(text, 100).join('\n')}\n`),
    `Options:\n${columns(options)}`,
    `Examples:\n${examples.map(([line, purpose]) => `  ${purpose}\n  ${line}\n`).join('')}`
  ].join('\n')
}

/** The help of the whole command line. */
export function generalHelp(commands: Iterable<Command>): string {
  return [
    'Usage: toolwright COMMAND [arguments] [options]\n',
    columns([...commands].map(({ name, summary }) => [name, `${summary}.`] as const)),
    'Options:\n' +
      columns([
        ['--help', 'This help; of one command: toolwright help COMMAND.'],
        ['--version', 'The version of Toolwright.']
      ]),
    `Exit codes:\n${columns(Object.entries(exitCodes).map(([code, meaning]) => [code, `${meaning}.`] as const))}`
  ].join('\n')
}

const helpOption: Option = { type: 'boolean', description: 'This help.' }

const capital = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows
    .flatMap(([left, right]) =>
      wrap(right, 96 - width).map((line, at) => `  ${(at === 0 ? left : '').padEnd(width)}  ${line}\n`)
    )
    .join('')
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else {
      line = line === '' ? word : `${line} ${word}`
    }
  }
  return [...lines, line]
}
