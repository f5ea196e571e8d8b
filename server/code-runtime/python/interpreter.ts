import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { RuntimeUnavailableError } from '../runtime-errors.ts'

const run = promisify(execFile)
const askMs = 10_000
/** Where an interpreter is looked for. The system's come first: one in a home directory is closed to the worlds' own users. */
const usual = ['/usr/bin/python3', '/usr/local/bin/python3', 'python3']
const question = 'import sys; print(sys.executable); sys.exit(sys.version_info < (3, 9))'

/**
 * The real path of a Python interpreter, 3.9 or later: of the one named, or of the first that answers. Rejects with
 * `RuntimeUnavailableError` that says what was tried.
 */
export async function findInterpreter(named?: string): Promise<string> {
  const tried = named === undefined ? usual : [named]
  for (const candidate of tried) {
    try {
      const { stdout } = await run(candidate, ['-I', '-S', '-c', question], { timeout: askMs })
      if (stdout.trim() !== '') return stdout.trim()
    } catch {
      // Not there, or too old.
    }
  }
  throw new RuntimeUnavailableError(`There is no Python 3.9 or later at ${tried.join(', ')}.`)
}
