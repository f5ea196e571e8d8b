import { chmodSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { onTestFinished, vi } from 'vitest'
import { temporaryDirectory } from './temporary-directory.ts'

/** Runs the text with bash, where PowerShell was asked for it as it must be: the exit codes are then those of the text. */
const program = `#!/bin/bash
pinned='[Console]::OutputEncoding = [Text.Encoding]::UTF8; '
[[ "$#" = 5 && "$1 $2 $3 $4" = '-NoLogo -NoProfile -NonInteractive -Command' ]] || { echo "called with $*" >&2; exit 64; }
[[ "$5" = "$pinned"* ]] || { echo "the output is not pinned to UTF-8" >&2; exit 65; }
exec bash -c "\${5#"$pinned"}"
`

/** Puts a program `pwsh` on the PATH until the test is over, by default one that stands in for PowerShell; CI has none. */
export function fakePwsh(text = program): void {
  const directory = temporaryDirectory()
  writeFileSync(join(directory, 'pwsh'), text)
  chmodSync(join(directory, 'pwsh'), 0o755)
  setPath(`${directory}${delimiter}${process.env['PATH']}`)
}

/** Until the test is over. */
export function setPath(path: string): void {
  vi.stubEnv('PATH', path)
  onTestFinished(() => void vi.unstubAllEnvs())
}
