import { execFileSync } from 'node:child_process'
import { resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../..')

/**
 * The entry points as they are built, for tests that start them as processes: from source each start takes nearly twice the time. A
 * build that is not of this source fails the tests, as they would show nothing.
 */
export const built = { main: resolve(root, 'dist/server/main.js'), cli: resolve(root, 'dist/server/cli.js') }

execFileSync(process.execPath, [resolve(root, 'scripts/prepare.js'), '--is-built'], { stdio: 'inherit' })
