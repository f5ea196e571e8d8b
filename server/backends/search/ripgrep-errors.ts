import type { ExitFacts } from '../subprocess/subprocess.ts'
import { SearchError } from './search.ts'

/** How ripgrep begins when it does not understand a regular expression or a glob. */
const patternErrors =
  /^rg: (?:regex parse error:|error parsing glob|the literal .* is not allowed in a regex|.*regex exceeds size limit)/i
/** It names options that cannot be given here. */
const hints = /\n\nConsider enabling .*/s
/** As much of what ripgrep says as is worth reading. */
const MAX_QUOTED_CHARACTERS = 2_000

export const invalidPattern = (reason: string): SearchError =>
  new SearchError('SEARCH_INVALID_PATTERN', `the pattern is not valid: ${reason}`)

/** What an exit amounts to that is neither 0 nor 1. Also with matches it is a failure: something was not searched (backends.md §6.8). */
export function searchFailure({ exitCode, signal }: ExitFacts, stderr: string): SearchError {
  const said = stderr.trim()
  if (patternErrors.test(said)) {
    return invalidPattern(quoted(said.replace(hints, '').replace(/^rg: (?:regex parse error:\n)?/, '')))
  }
  const ended = exitCode === null ? `ripgrep was ended by ${signal}` : `ripgrep failed with exit code ${exitCode}`
  return new SearchError('SEARCH_FAILED', said === '' ? ended : `${ended}: ${quoted(said)}`)
}

function quoted(said: string): string {
  if (said.length <= MAX_QUOTED_CHARACTERS) return said
  return `${said.slice(0, MAX_QUOTED_CHARACTERS).replace(/[\uD800-\uDBFF]$/, '')}… (${said.length} characters)`
}
