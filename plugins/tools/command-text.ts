import { joinStreams } from '../../server/backends/shell/join-streams.ts'
import type { OutputDelta, SandboxFacts, ShellOutput, ShellRunResult } from '../../server/backends/shell/shell.ts'
import { escalationHint } from './escalation.ts'

/**
 * What a model reads of a finished command (backends.md §3.2). The exit or signal marker is always the last line (D1). `canEscalate`: a
 * call may ask for more permissions.
 */
export function renderCommand(result: ShellRunResult, { canEscalate = false } = {}): string {
  const body = joinStreams(renderOutput(result.stdout), renderOutput(result.stderr)) || '(no output)'
  const markers = [
    ...sandboxMarkers(result.sandbox, canEscalate),
    ...(result.timedOut ? [`[timed out after ${result.timeoutMs}ms]`] : []),
    result.signal === null ? `[exit code: ${result.exitCode ?? 0}]` : `[killed by signal: ${result.signal}]`
  ]
  return markers.reduce(appendLine, body)
}

/** What a model reads of a command in the background, at a time; with what is known of its sandbox once it has ended (backends.md §3.2). */
export function renderDelta({ text, lossy, spillPaths }: OutputDelta, sandbox?: SandboxFacts): string {
  const paths = spillPaths.join(', ') || '(unavailable)'
  const markers = [
    ...(lossy ? [`[some output was dropped from memory; full output: ${paths}]`] : []),
    ...sandboxMarkers(sandbox, false),
    ...(sandbox?.runnerFailed === true ? ['[sandbox: it failed, so the command may not have run]'] : [])
  ]
  return markers.reduce(appendLine, text)
}

/** What a refusal of the sandbox adds: the fact, and what to do about it where something can be done. */
function sandboxMarkers(facts: SandboxFacts | undefined, canEscalate: boolean): string[] {
  if (facts?.denied !== true) return []
  return [`[sandbox: file access denied under ${facts.mode} mode]`, ...(canEscalate ? [escalationHint] : [])]
}

function renderOutput({ text, truncated, spillPath }: ShellOutput): string {
  if (!truncated) return text
  return appendLine(text, `[output truncated; full output: ${spillPath ?? '(unavailable)'}]`)
}

/** No newline is added where the text ends with one. */
const appendLine = (text: string, line: string): string =>
  `${text}${text === '' || text.endsWith('\n') ? '' : '\n'}${line}`

const finalMarker = /\n\[(?:exit code: (?<exitCode>\d+)|killed by signal: (?<signal>[A-Z0-9+-]+))\]$/

/** The inverse: the text without its last line, and what that says. A text that was replaced and has no marker counts as exit 0. */
export function parseCommand(text: string): { output: string; exitCode: number } | { output: string; signal: string } {
  const marker = finalMarker.exec(text)
  if (marker === null) return { output: text, exitCode: 0 }
  const output = text.slice(0, marker.index)
  const { signal, exitCode } = marker.groups ?? {}
  return signal === undefined ? { output, exitCode: Number(exitCode) } : { output, signal }
}
