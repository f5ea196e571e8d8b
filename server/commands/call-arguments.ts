import { readFileSync } from 'node:fs'
import { UsageError } from '../command-line.ts'

/**
 * The JSON text of a call's arguments: of a JSON argument, of standard input for `-`, or made of `name=text` and `name:=json` pairs; `{}` if
 * there is none. It is checked and stays as it was written, so that no number is rounded on its way. Throws `UsageError`.
 */
export function callArguments(json: string | undefined, pairs: readonly string[] | undefined): string {
  if (pairs !== undefined) {
    if (json !== undefined) throw new UsageError('the arguments are either JSON or --arg, not both')
    return fromPairs(pairs)
  }
  if (json === undefined) return '{}'
  return checkedJson(json === '-' ? readFileSync(0, 'utf8') : json, 'the arguments are')
}

function fromPairs(pairs: readonly string[]): string {
  const members = new Map<string, string>()
  for (const pair of pairs) {
    const [, name, sign, text] = /^(.+?)(:?=)(.*)$/s.exec(pair) ?? []
    if (name === undefined || text === undefined) throw new UsageError('--arg takes NAME=TEXT or NAME:=JSON')
    if (members.has(name)) throw new UsageError(`--arg ${JSON.stringify(name)} is given twice`)
    members.set(name, sign === '=' ? JSON.stringify(text) : checkedJson(text, `--arg ${name} is`))
  }
  return `{${[...members].map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`
}

/** `text` itself, if it is JSON; else throws a `UsageError` that begins with `what`. */
export function checkedJson(text: string, what: string): string {
  try {
    JSON.parse(text)
    return text
  } catch (error) {
    throw new UsageError(`${what} no JSON: ${(error as Error).message}`)
  }
}
