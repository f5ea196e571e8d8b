// Compiles server/, plugins/ and routes/ to dist/ and puts beside them what is not compiled: migrations, Python and shell.
import { execFileSync } from 'node:child_process'
import { cpSync, readdirSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')

rmSync(join(root, 'dist'), { recursive: true, force: true })
execFileSync(process.execPath, [tsc, '-p', join(root, 'tsconfig.build.json')], { cwd: root, stdio: 'inherit' })
cpSync(join(root, 'migrations'), join(root, 'dist', 'migrations'), { recursive: true })
cpSync(
  join(root, 'server/backends/subprocess/bash-mark.sh'),
  join(root, 'dist/server/backends/subprocess/bash-mark.sh')
)
const python = join('server', 'code-runtime', 'python')
for (const file of readdirSync(join(root, python)).filter((name) => name.endsWith('.py'))) {
  cpSync(join(root, python, file), join(root, 'dist', python, file))
}
