import { UsageError } from '../command-line.ts'

/** Takes what is no option out of a command's arguments: every option of a command has a value but `--allow-remote`. Throws `UsageError`. */
export function splitArguments(
  args: readonly string[],
  { least, most, usage }: { least: number; most: number; usage: string }
): { positionals: string[]; options: string[] } {
  const positionals: string[] = []
  const options: string[] = []
  for (let at = 0; at < args.length; at += 1) {
    const each = args[at] as string
    if (!each.startsWith('-')) {
      positionals.push(each)
      continue
    }
    options.push(each)
    const next = args[at + 1]
    if (each.includes('=') || each === '--allow-remote' || next === undefined) continue
    options.push(next)
    at += 1
  }
  if (positionals.length < least || positionals.length > most) throw new UsageError(`Usage: toolwright ${usage}`)
  return { positionals, options }
}
