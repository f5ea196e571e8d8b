// Makes the checkout ready to run: installs what the lock file names and builds dist/, each only when it is missing or out of date.
// It uses nothing but Node itself, since it runs before anything is installed.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const npm = process.env['npm_execpath']

/** better-sqlite3 12 aborts on Node 24 and 13 crashes on Node 20: each Node gets the version that works on it. */
const sqliteForNewerNode = 'better-sqlite3@13.2.0'
const nodeMajor = Number(process.versions.node.split('.')[0])

/** @param {string} line */
const say = (line) => process.stdout.write(`toolwright: ${line}\n`)

/** @param {string[]} args */
function runNpm(args) {
  const [command, prefix] = npm === undefined ? ['npm', []] : [process.execPath, [npm]]
  try {
    execFileSync(command, [...prefix, ...args], { cwd: root, stdio: 'inherit' })
  } catch {
    process.stderr.write(
      `toolwright: "npm ${args.join(' ')}" failed, see above. It needs the npm registry, and a C++ toolchain with Python; where Node's ` +
        'headers cannot be downloaded, npm_config_nodedir=<prefix of this Node> names them.\n'
    )
    process.exit(1)
  }
}

/** @param {string} file */
const readStamp = (file) => (existsSync(file) ? readFileSync(file, 'utf8') : '')

/** @param {string} file @param {string} text */
function writeStamp(file, text) {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

function install() {
  const stampFile = join(root, 'node_modules', '.toolwright-installed')
  const lock = readFileSync(join(root, 'package-lock.json'))
  const stamp = `${createHash('sha256').update(lock).digest('hex')} ${process.platform}-${process.arch}-${process.versions.modules}`
  if (readStamp(stampFile) === stamp) return
  say('installing dependencies from the lock file (the first time compiles SQLite: about a minute) …')
  runNpm(['ci', '--no-audit', '--no-fund'])
  if (nodeMajor >= 22) {
    say(`Node ${nodeMajor} needs ${sqliteForNewerNode} …`)
    runNpm(['install', '--no-save', '--no-audit', '--no-fund', sqliteForNewerNode])
  }
  writeStamp(stampFile, stamp)
}

function build() {
  const stampFile = join(root, 'dist', '.built')
  const stamp = sourceStamp()
  if (readStamp(stampFile) === stamp) return
  if (process.argv.includes('--is-built')) {
    process.stderr.write('toolwright: dist/ is out of date; "node scripts/prepare.js" builds it\n')
    process.exit(1)
  }
  say('building dist/ …')
  execFileSync(process.execPath, [join(root, 'scripts', 'build.js')], { cwd: root, stdio: 'inherit' })
  writeStamp(stampFile, stamp)
}

/** Changes whenever a file that goes into the build does. */
function sourceStamp() {
  const hash = createHash('sha256')
  for (const name of [
    'server',
    'plugins',
    'routes',
    'migrations',
    'package-lock.json',
    'tsconfig.json',
    'tsconfig.build.json'
  ]) {
    const path = join(root, name)
    if (statSync(path).isFile()) hash.update(readFileSync(path))
    else {
      for (const entry of readdirSync(path, { recursive: true, withFileTypes: true }).filter((item) => item.isFile())) {
        const file = join(entry.parentPath, entry.name)
        hash.update(file.slice(root.length)).update(readFileSync(file))
      }
    }
  }
  return hash.digest('hex')
}

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 20 || (major === 20 && minor < 19)) {
  process.stderr.write(`toolwright needs Node 20.19 or later; this is ${process.versions.node}\n`)
  process.exit(1)
}
install()
build()
