import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** A canonical directory that is gone after the test. */
export function temporaryDirectory(): string {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'toolwright-test-')))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}
