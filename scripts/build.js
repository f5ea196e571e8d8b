// Compiles server/, plugins/ and routes/ to dist/ and puts beside them what is not compiled: migrations and Python.
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
const python = join('server', 'code-runtime', 'python')
for (const file of readdirSync(join(root, python)).filter((name) => name.endsWith('.py'))) {
  cpSync(join(root, python, file), join(root, 'dist', python, file))
}
