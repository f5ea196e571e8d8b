import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { execa } from 'execa'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import { SpawnError, type SpawnSpec } from '../../../server/backends/subprocess/subprocess.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const shared = new ManagedTrees({ dataDirectory: import.meta.dirname })
afterAll(() => shared.dispose())

/** Trees of its own for a test that disposes them. */
function openOwn() {
  const trees = new ManagedTrees({ dataDirectory: temporaryDirectory() })
  onTestFinished(() => trees.dispose())
  return open(trees)
}

function open(trees = shared) {
  const directory = temporaryDirectory()
  const bash = (command: string, more: Partial<SpawnSpec> = {}) =>
    trees.spawn({
      argv: ['bash', '-c', command],
      cwd: directory,
      stdin: 'ignore',
      stdout: { maxBytes: 1000 },
      stderr: { maxBytes: 1000 },
      graceMs: 300,
      ...more
    })
  return { trees, directory, bash }
}

const outputOf = async (handle: ReturnType<ManagedTrees['spawn']>, stream: 'stdout' | 'stderr' = 'stdout') =>
  (await handle.collected[stream]!.readFrom(0)).text

describe('starting', () => {
  it('throws for a signal that is already aborted, and starts nothing (backends.md §2)', () => {
    const { bash, directory } = open()
    const file = join(directory, 'canary')
    expect(() => bash(`touch ${file}`, { signal: AbortSignal.abort() })).toThrow(/abort/)
    expect(existsSync(file)).toBe(false)
  })

  it.each([0, -1, Number.NaN, Infinity, 2 ** 31])('refuses a grace of %s', (graceMs) => {
    expect(() => open().bash('true', { graceMs })).toThrow(RangeError)
  })

  it.each([false, true])(
    'rejects done for a missing program, pid −1, and signals are no-ops (marked: %s)',
    async (marksLimits) => {
      const { trees, bash, directory } = open()
      const handle = trees.spawn({
        ...bash('true'),
        marksLimits,
        argv: ['no-such-program'],
        cwd: directory,
        stdin: 'ignore',
        stdout: 'pipe',
        stderr: 'pipe',
        graceMs: 100
      })
      await expect(handle.done).rejects.toThrow(SpawnError)
      await expect(handle.done).rejects.toThrow(/no-such-program/)
      expect(await handle.started).toBe(-1)
      handle.terminate()
      expect(await handle.waitForExit()).toBe(true)
    }
  )

  it('tells a missing directory from a missing program', async () => {
    const { bash, directory } = open()
    await expect(bash('true', { cwd: join(directory, 'nowhere') }).done).rejects.toThrow(/directory .*nowhere/)
    await expect(bash('true', { cwd: '/etc/passwd' }).done).rejects.toThrow(/directory/)
  })

  it.each(['a\0b', 'x'.repeat(200_000)])('survives an argument that the system refuses', async (argument) => {
    const { trees, directory } = open()
    const spec = { cwd: directory, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe', graceMs: 100 } as const
    await expect(trees.spawn({ ...spec, argv: ['echo', argument] }).done).rejects.toThrow(SpawnError)
    await expect(trees.spawn({ ...spec, argv: ['echo', 'fine'] }).done).resolves.toEqual({ exitCode: 0, signal: null })
  })

  it('gives the leader a session and group of its own', async () => {
    const handle = open().bash('ps -o pid=,pgid=,sid= -p $$')
    await handle.done
    const ids = (await outputOf(handle)).trim().split(/\s+/)
    expect(new Set(ids)).toEqual(new Set([String(handle.pid)]))
  })

  it('scrubs the environment, adds what is explicit, and removes what is undefined', async () => {
    const before = { ...process.env }
    Object.assign(process.env, { MY_SECRET: 's', foo_token: 't', toolwright_stale: 'z', PLAIN: 'ok', GONE: 'g' })
    onTestFinished(() => {
      process.env = before
    })
    const handle = open().bash('echo "[$MY_SECRET][$foo_token][$toolwright_stale][$PLAIN][$GONE][$API_KEY]"', {
      env: { API_KEY: 'passed', GONE: undefined }
    })
    await handle.done
    expect(await outputOf(handle)).toBe('[][][][ok][][passed]\n')
  })
})

describe('standard input and raw streams', () => {
  it('writes data and closes', async () => {
    const handle = open().bash('cat; echo end', { stdin: { data: 'héllo\n' } })
    await handle.done
    expect(await outputOf(handle)).toBe('héllo\nend\n')
  })

  it('ignores a reader that does not read the data', async () => {
    const handle = open().bash('exec <&-; exit 3', { stdin: { data: 'x'.repeat(1_000_000) } })
    expect(await handle.done).toEqual({ exitCode: 3, signal: null })
  })

  it('passes megabytes through pipes unchanged, both ways', async () => {
    const handle = open().bash('cat', { stdin: 'pipe', stdout: 'pipe' })
    const sent = Array.from({ length: 300_000 }, (_, at) => `line ${at}\n`).join('')
    handle.stdin!.end(sent)
    expect(await textOf(handle.stdout!)).toBe(sent)
    expect((await handle.done).exitCode).toBe(0)
  })

  it('holds a writer back whose reader does not read', async () => {
    const { bash, directory } = open()
    const handle = bash('for i in {1..64}; do head -c 65536 /dev/zero; echo >> count; done', { stdout: 'pipe' })
    await until(() => existsSync(join(directory, 'count')))
    const counted = () => readFileSync(join(directory, 'count'), 'utf8').length
    let before = -1
    await until(async () => {
      const same = counted() === before
      before = counted()
      await wait(100)
      return same
    })
    expect(counted()).toBeLessThan(32)
    let received = 0
    for await (const chunk of handle.stdout!) received += (chunk as Buffer).length
    expect(received).toBe(64 * 65536)
  })

  it('keeps the output of a process that is long gone for a slow reader', async () => {
    const handle = open().bash('head -c 1000000 /dev/zero; echo end', { stdout: 'pipe', drainMs: 20, graceMs: 100 })
    const reader = handle.stdout!.iterator()
    const first = (await reader.next()).value as Buffer
    await handle.started
    handle.terminate()
    await handle.waitForExit()
    let received = first.length
    for (let next = await reader.next(); next.done !== true; next = await reader.next())
      received += (next.value as Buffer).length
    // What the process had written when it was ended, and it does end.
    expect(received).toBeGreaterThan(first.length)
  })

  it('tells a late writer that the process is gone, and nothing falls (F17)', async () => {
    const handle = open().bash('true', { stdin: 'pipe' })
    await handle.done
    await handle.waitForExit()
    const error = await new Promise((resolve) => handle.stdin!.write('late', resolve))
    expect(error).toBeInstanceOf(Error)
  })
})

describe('collected output', () => {
  it('keeps exactly the last bytes, exactly-at-cap is not lossy', async () => {
    const { bash } = open()
    const exact = bash("head -c 1000 /dev/zero | tr '\\0' a")
    await exact.done
    expect(await exact.collected.stdout!.readFrom(0)).toEqual({
      text: 'a'.repeat(1000),
      nextOffset: 1000,
      lossy: false
    })
    const over = bash("echo start; head -c 1000 /dev/zero | tr '\\0' a")
    await over.done
    expect(await over.collected.stdout!.readFrom(0)).toEqual({ text: 'a'.repeat(1000), nextOffset: 1006, lossy: true })
    expect(await over.collected.stdout!.readFrom(1004)).toEqual({ text: 'aa', nextOffset: 1006, lossy: false })
    expect(await over.collected.stdout!.readFrom(999_999)).toEqual({ text: '', nextOffset: 1006, lossy: false })
  })

  it('spills the whole stream to a private file on overflow', async () => {
    const handle = open().bash('seq 1 5000', { stdout: { maxBytes: 100, spill: { maxBytes: 100_000 } } })
    await handle.done
    const { spillPath, lossy, text } = await handle.collected.stdout!.readFrom(0)
    expect(lossy).toBe(true)
    expect(text.endsWith('4999\n5000\n')).toBe(true)
    expect(readFileSync(spillPath!, 'utf8')).toBe(Array.from({ length: 5000 }, (_, at) => `${at + 1}\n`).join(''))
    expect(statSync(spillPath!).mode & 0o777).toBe(0o600)
    expect(statSync(dirname(spillPath!)).mode & 0o777).toBe(0o700)
  })

  it('deletes the file of a stream beyond the spill cap', async () => {
    const { bash, directory } = open()
    const spill = { maxBytes: 1000, directory: join(directory, 'outputs') }
    const handle = bash('seq 1 5000', { stdout: { maxBytes: 100, spill } })
    await handle.done
    expect((await handle.collected.stdout!.readFrom(0)).spillPath).toBeUndefined()
    expect(await execa('ls', [spill.directory])).toMatchObject({ stdout: '' })
  })

  it('loses the file, not the command, when it cannot be written', async () => {
    const { bash, directory } = open()
    writeFileSync(join(directory, 'file'), '')
    const spill = { maxBytes: 1_000_000, directory: join(directory, 'file', 'below') }
    const handle = bash('seq 1 5000', { stdout: { maxBytes: 100, spill } })
    expect(await handle.done).toEqual({ exitCode: 0, signal: null })
    expect((await handle.collected.stdout!.readFrom(0)).spillPath).toBeUndefined()
  })

  it('reads while the process runs, never half a character (F29)', async () => {
    const { bash, directory } = open()
    const handle = bash("printf 'a\\xe4\\xbd'; until [ -e go ]; do sleep .01; done; printf '\\xa0b'")
    await until(async () => (await handle.collected.stdout!.readFrom(0)).text === 'a')
    const first = await handle.collected.stdout!.readFrom(0)
    expect(first).toEqual({ text: 'a', nextOffset: 1, lossy: false })
    writeFileSync(join(directory, 'go'), '')
    await handle.done
    expect((await handle.collected.stdout!.readFrom(first.nextOffset)).text).toBe('你b'.replace('你', '\u4f60'))
  })

  it('passes text on live within its budget and tells what it left out', async () => {
    const texts: string[] = []
    const handle = open().bash('for i in {1..20000}; do echo 你你你你你你你你; done', {
      live: { bytesPerSecond: 10_000, onText: (text) => texts.push(text) }
    })
    await handle.done
    const seen = texts.join('')
    expect(seen).not.toContain('\ufffd')
    expect(seen).toMatch(/\[\d+ bytes are not shown live\]/)
    expect(Buffer.byteLength(seen)).toBeLessThan(100_000)
  })
})

describe('ending', () => {
  it('ends a whole tree, also what ignores SIGTERM after its leader went', async () => {
    const sleep = uniqueSleep()
    const { bash } = open()
    const handle = bash(`(trap '' TERM; sleep ${sleep} & sleep ${sleep}; sleep ${sleep}) & echo up; wait`)
    await until(async () => (await outputOf(handle)) === 'up\n' && processesWith(sleep).length >= 3)
    handle.terminate()
    handle.terminate()
    expect(await handle.done).toEqual({ exitCode: null, signal: 'SIGTERM' })
    expect(await handle.waitForExit()).toBe(true)
    expect(processesWith(sleep)).toEqual([])
  })

  it('settles although a descendant holds the output, and leaves it alone (backends.md §2)', async () => {
    const sleep = uniqueSleep()
    const { bash, trees } = openOwn()
    const handle = bash(`sleep ${sleep} & echo hi`, { drainMs: 100 })
    expect(await handle.done).toEqual({ exitCode: 0, signal: null })
    expect(await outputOf(handle)).toBe('hi\n')
    expect(processesWith(sleep)).toHaveLength(1)
    expect(await handle.waitForExit(AbortSignal.timeout(300))).toBe(false)
    expect(await handle.waitForExit(AbortSignal.abort())).toBe(false)
    await trees.dispose()
    expect(processesWith(sleep)).toEqual([])
  })

  it('does not kill a descendant by closing its output: it writes on after the answer', async () => {
    const { bash, directory } = open()
    const handle = bash('(for i in {1..40}; do echo line $i; sleep .01; done; echo survived > file) & echo hi', {
      drainMs: 50
    })
    await handle.done
    await until(() => existsSync(join(directory, 'file')))
  })

  it.each([
    ['a new session', (sleep: string) => `setsid sleep ${sleep} & wait`],
    ['a double fork', (sleep: string) => `(setsid bash -c '(setsid sleep ${sleep} &) ; exit' &) ; sleep 99`],
    ['a new session without its environment', (sleep: string) => `env -i setsid sleep ${sleep} & wait`],
    [
      'a daemon that ignores SIGTERM',
      (sleep: string) => `setsid bash -c "trap '' TERM; sleep ${sleep}; sleep ${sleep}" & wait`
    ]
  ])('ends %s with the tree (F3)', async (_name, command) => {
    const sleep = uniqueSleep()
    const controller = new AbortController()
    const handle = open().bash(command(sleep), { signal: controller.signal })
    // The sleep itself: one that is being started while its parent is ended is known by its limit only, which is not set here.
    await until(() => processesWith(sleep).some((line) => line.startsWith('sleep ')))
    controller.abort()
    await handle.done
    expect(await handle.waitForExit()).toBe(true)
    expect(processesWith(sleep)).toEqual([])
  })

  it('ends what dropped its environment, its session and its parent', async () => {
    const [timed, left] = [uniqueSleep(), uniqueSleep()]
    const hidden = (seconds: string) => `env -i setsid sh -c '(sleep ${seconds} &)'`
    const { trees, ...own } = openOwn()
    const bash = (command: string) => own.bash(command, { marksLimits: true })
    // The mark is theirs still, and no other tree's.
    const ended = bash(`${hidden(timed)}; sleep 60`)
    await bash(hidden(left)).done
    const runs = (seconds: string) => processesWith(seconds).some((line) => line.startsWith('sleep '))
    await until(() => runs(timed) && runs(left))
    ended.terminate()
    expect(await ended.waitForExit(AbortSignal.timeout(10_000))).toBe(true)
    expect([timed, left].map((seconds) => processesWith(seconds).length)).toEqual([0, 1])
    await trees.dispose()
    expect(processesWith(left)).toEqual([])
  })

  it.each([
    ['', {}, '[]'],
    [' and reads the BASH_ENV of its caller', { BASH_ENV: 'hello.sh' }, 'hello\n[hello.sh]']
  ])('marks a bash by a limit%s', async (_what, env, said) => {
    const { bash, directory } = open()
    writeFileSync(join(directory, 'hello.sh'), 'echo hello')
    const handle = bash('echo "[$BASH_ENV]"; [ "$(ulimit -R)" = "$TOOLWRIGHT_TREE" ]', { env, marksLimits: true })
    expect(await handle.done).toEqual({ exitCode: 0, signal: null })
    expect(await outputOf(handle)).toBe(`${said}\n`)
  })

  it('marks by the environment alone where the limit is set already, as for a server that a command of another started', async () => {
    const sleep = uniqueSleep()
    const program = `
      import { ManagedTrees } from ${JSON.stringify(join(import.meta.dirname, '../../../server/backends/subprocess/managed-trees.ts'))}
      const trees = new ManagedTrees({ dataDirectory: process.cwd() })
      const handle = trees.spawn({ argv: ['bash', '-c', 'setsid sleep ${sleep} & ulimit -R; wait'], cwd: '/', stdin: 'ignore', stdout: 'pipe', stderr: 'pipe', graceMs: 300, marksLimits: true })
      handle.stdout.once('data', (chunk) => { process.stdout.write(chunk); handle.terminate() })
      await handle.waitForExit()
      await trees.dispose()`
    const { stdout } = await execa('/usr/bin/prlimit', [
      '--rttime=5000000000000000000:5000000000000000000',
      'npx',
      'tsx',
      '--input-type=module',
      '-e',
      program
    ])
    expect(stdout).toBe('5000000000000000000')
    expect(processesWith(sleep)).toEqual([])
  })

  it('ends at disposal the daemon of a command that was over long before', async () => {
    const sleep = uniqueSleep()
    const { trees, bash } = openOwn()
    await bash(`setsid sleep ${sleep} > /dev/null 2>&1 & echo x`).done
    expect(processesWith(sleep)).toHaveLength(1)
    await trees.dispose()
    expect(processesWith(sleep)).toEqual([])
    expect(() => bash('true')).toThrow(SpawnError)
  })

  it('counts a group of zombies as gone', async () => {
    const { bash } = open()
    // Where pid 1 collects no orphans, as in a container without an init, the sleep stays a zombie of the group for good.
    const handle = bash('sleep .05 & exit')
    await handle.done
    expect(await handle.waitForExit(AbortSignal.timeout(5000))).toBe(true)
  })

  it('kills every live tree when the server exits without disposing', async () => {
    const [inGroup, escaped, starting] = [uniqueSleep(), uniqueSleep(), uniqueSleep()]
    const program = `
      import { ManagedTrees } from ${JSON.stringify(join(import.meta.dirname, '../../../server/backends/subprocess/managed-trees.ts'))}
      const trees = new ManagedTrees({ dataDirectory: process.cwd() })
      const spec = { cwd: '/', stdin: 'ignore', stdout: 'pipe', stderr: 'pipe', graceMs: 1000, marksLimits: true }
      const run = (command) => trees.spawn({ ...spec, argv: ['bash', '-c', command] })
      const handle = run('sleep ${inGroup} & setsid sleep ${escaped} & env -i setsid sh -c "(sleep ${escaped} &)"; echo up; wait')
      handle.stdout.once('data', () => { for (let i = 0; i < 5; i++) run('sleep ${starting}; true'); setTimeout(() => process.exit(7), 15) })`
    const result = await execa('npx', ['tsx', '--input-type=module', '-e', program], { reject: false })
    expect(result.exitCode).toBe(7)
    await until(() => [inGroup, escaped, starting].flatMap(processesWith).length === 0)
  })

  /** Has another server start a command and one that left it, and then runs `end` in it; how many processes there were. */
  async function leave(directory: string, sleep: string, end: string): Promise<number> {
    const program = `
      import { readFileSync } from 'node:fs'
      import { ManagedTrees } from ${JSON.stringify(join(import.meta.dirname, '../../../server/backends/subprocess/managed-trees.ts'))}
      const trees = new ManagedTrees({ dataDirectory: ${JSON.stringify(directory)} })
      const command = 'sleep ${sleep} & setsid sleep ${sleep} & env -i setsid sleep ${sleep} & echo up; wait'
      const handle = trees.spawn({ argv: ['bash', '-c', command], cwd: '/', stdin: 'ignore', stdout: 'pipe', stderr: 'pipe', graceMs: 1000, marksLimits: true })
      handle.stdout.once('data', () => {
        const host = Number(readFileSync('/proc/' + handle.pid + '/stat', 'utf8').split(') ')[1].split(' ')[1])
        ${end}
      })`
    // Its output is not waited for: a host that is stopped holds it open.
    await execa('npx', ['tsx', '--input-type=module', '-e', program], { reject: false, stdio: 'ignore' })
    return processesWith(`sleep ${sleep}`).length
  }

  it('ends everything when the server is killed', async () => {
    const sleep = uniqueSleep()
    await leave(temporaryDirectory(), sleep, "process.kill(process.pid, 'SIGKILL')")
    await until(() => processesWith(sleep).length === 0)
  })

  it('ends what a dead server on the same data directory left, and nothing of a live one (R8)', async () => {
    const [left, ours] = [uniqueSleep(), uniqueSleep()]
    const directory = temporaryDirectory()
    const trees = new ManagedTrees({ dataDirectory: directory })
    onTestFinished(() => trees.dispose())
    const stopHost = "process.kill(host, 'SIGSTOP'); process.kill(process.pid, 'SIGKILL')"
    expect(await leave(directory, left, stopHost)).toBeGreaterThanOrEqual(3)
    open(trees).bash(`sleep ${ours}`)
    await until(() => processesWith(`sleep ${ours}`).length > 0)
    expect(await trees.endStrays()).toBeGreaterThanOrEqual(4)
    await until(() => processesWith(left).length === 0)
    expect(processesWith(`sleep ${ours}`).length).toBeGreaterThan(0)
  })
})

describe('resolveExecutable', () => {
  it('finds programs by name and takes absolute ones as they are', async () => {
    const { trees } = open()
    expect(await trees.resolveExecutable('bash')).toMatch(/^\/.*\/bash$/)
    expect(await trees.resolveExecutable('/bin/sh')).toBe('/bin/sh')
  })

  it.each(['./bash', 'bin/bash', '', 'no-such-program', '/etc/passwd', '/tmp', 'a\0b'])('rejects %j', async (name) => {
    await expect(open().trees.resolveExecutable(name)).rejects.toThrow(SpawnError)
  })

  it('never searches relative entries of the PATH', async () => {
    await expect(open().trees.resolveExecutable('managed-trees.ts', { PATH: '.:' })).rejects.toThrow(SpawnError)
  })
})
