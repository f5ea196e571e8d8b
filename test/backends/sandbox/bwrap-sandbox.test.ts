import { chmodSync, existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { execa } from 'execa'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { BwrapOptions, BwrapSandbox } from '../../../server/backends/sandbox/bwrap-sandbox.ts'
import { SandboxError, type SandboxMode } from '../../../server/backends/sandbox/sandbox.ts'
import type { SandboxLimits } from '../../../server/backends/sandbox/bwrap-arguments.ts'
import { SandboxShell } from '../../../server/backends/shell/sandbox-shell.ts'
import type { ShellRunResult } from '../../../server/backends/shell/shell.ts'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import { processRow, readProc } from '../../../server/backends/subprocess/process-table.js'
import { ProcessLostError } from '../../../server/backends/subprocess/subprocess.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { sandboxGround, sandboxUid, testLimits } from '../../helpers/sandbox.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const ground = sandboxGround()
const probed = await ground.open().catch((error: unknown) => error)
const isRoot = process.getuid?.() === 0
const canary = 'canary-of-the-server'
let workspaces = 0

type Run = (command: string, mode?: SandboxMode, timeoutMs?: number) => Promise<ShellRunResult>

/** A sandboxed shell with a workspace of its own. */
async function open(limits?: Partial<SandboxLimits>, more: Partial<BwrapOptions> = {}) {
  const workspace = ground.workspace(`workspace-${workspaces++}`)
  const sandbox = limits === undefined ? (probed as BwrapSandbox) : await ground.open(limits, more)
  const shell = new SandboxShell(ground.trees, sandbox, { limits: { graceMs: 500 } })
  const run: Run = (command, mode = 'workspace-write', timeoutMs = 30_000) => {
    const policy = { mode, workspaceRoot: workspace }
    return shell.run(shell.resolve({ command, workdir: workspace, policy, timeoutMs }), {
      signal: new AbortController().signal
    })
  }
  return { shell, workspace, run }
}

/** The processes that start others for this one. */
const hostPids = (): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => processRow(pid)?.parent === process.pid && readProc(`/proc/${pid}/cmdline`)?.includes('tree-host'))

const textOf = ({ stdout, stderr }: ShellRunResult): string => stdout.text + stderr.text

// Where the machine gives no namespaces the sandbox is not there: then this file has nothing to look at but the refusal below.
describe.skipIf(probed instanceof SandboxError)('a command in bwrap', { timeout: 60_000 }, () => {
  it('works in its workspace, as nobody, without capabilities', async () => {
    const { run, workspace } = await open()
    const command = 'pwd; echo hi > a && cat a; id -u; grep -E "CapEff|CapBnd|NoNewPrivs" /proc/self/status; ulimit -u'
    const { stdout, exitCode } = await run(command)
    const uid = isRoot ? sandboxUid : process.getuid?.()
    const none = '0'.repeat(16)
    expect([exitCode, stdout.text]).toEqual([
      0,
      `${workspace}\nhi\n${uid}\nCapEff:\t${none}\nCapBnd:\t${none}\nNoNewPrivs:\t1\n64\n`
    ])
    expect(readFileSync(join(workspace, 'a'), 'utf8')).toBe('hi\n')
  })

  it.each([
    ['outside', 'touch /etc/toolwright-was-here'],
    ['in the directory above', 'touch ../was-here'],
    ['through a link of the workspace', 'ln -s /etc link; touch link/toolwright-was-here'],
    ['in the data directory', `touch ${ground.dataDirectory}/was-here`],
    ['in /run', 'touch /run/was-here'],
    ['in /dev', 'touch /dev/was-here']
  ])('X1 writes nothing %s, and is told so', async (_where, command) => {
    const { run } = await open()
    const result = await run(command)
    expect(result.exitCode).not.toBe(0)
    expect(result.sandbox).toEqual({ mode: 'workspace-write', denied: true, enforcement: 'full' })
    for (const path of ['/etc/toolwright-was-here', join(ground.dataDirectory, 'was-here'), '/run/was-here'])
      expect(existsSync(path)).toBe(false)
  })

  it('S10 X1 does not run in another directory than the one that was judged', async () => {
    const { shell, workspace } = await open()
    const { dev, ino } = statSync(workspace, { bigint: true })
    const run = (workspaceIdentity: string) => {
      const policy = { mode: 'workspace-write', workspaceRoot: workspace, workspaceIdentity } as const
      const command = 'echo ran > ran; echo "$0" "$BASH_VERSION"'
      return shell.run(shell.resolve({ command, workdir: workspace, policy }), { signal: new AbortController().signal })
    }
    const other = await run(`${dev}:${ino + 1n}`)
    expect([other.exitCode, other.stderr.text]).toEqual([126, 'the workspace is another directory now\n'])
    expect(existsSync(join(workspace, 'ran'))).toBe(false)
    expect((await run(`${dev}:${ino}`)).stdout.text).toMatch(/^bash \d/)
  })

  it('X1 cannot be led out by a link that was there before', async () => {
    const { run, workspace } = await open()
    const outside = ground.directory(`outside-${workspaces}`)
    chmodSync(outside, 0o777)
    symlinkSync(outside, join(workspace, 'way-out'))
    expect(await run('echo x > way-out/file')).toMatchObject({ exitCode: 1, sandbox: { denied: true } })
    expect(existsSync(join(outside, 'file'))).toBe(false)
  })

  it('writes nothing at all in read-only mode, and reads', async () => {
    const { run, workspace } = await open()
    writeFileSync(join(workspace, 'a'), 'old')
    chmodSync(join(workspace, 'a'), 0o666)
    for (const command of ['echo new > a', 'touch b', 'touch /tmp/b', 'rm a'])
      expect(await run(command, 'read-only'), command).toMatchObject({ sandbox: { mode: 'read-only', denied: true } })
    expect((await run('cat a', 'read-only')).stdout.text).toBe('old')
  })

  it('X1 S29 does not see the environment, the files or the processes of the server', async () => {
    const before = { ...process.env }
    Object.assign(process.env, { DATABASE_URL: canary, MY_SECRET: canary, SHOWN: 'shown' })
    onTestFinished(() => {
      process.env = before
    })
    writeFileSync(join(ground.dataDirectory, 'admin-token'), canary)
    chmodSync(join(ground.dataDirectory, 'admin-token'), 0o644)
    const token = join(ground.directory('secrets'), 'token')
    writeFileSync(token, canary)
    const kept = ground.directory('keys')
    writeFileSync(join(kept, 'key'), canary)
    const hiddenPaths = [token, kept, '/nowhere/at/all']
    const { run } = await open({}, { environment: ['SHOWN'], hiddenPaths })
    const looking = `cat ${token} ${kept}/*; env; cat /proc/*/environ | tr '\\0' '\\n'; cat ${ground.dataDirectory}/* ; ls -A ${ground.dataDirectory}`
    const seen = textOf(await run(looking))
    expect(seen).not.toContain(canary)
    expect(seen).not.toContain('admin-token\n')
    expect(seen).toContain('SHOWN=shown')
    const processes = await run(`kill -9 ${process.pid} $PPID; echo /proc/[0-9]*; echo alive`)
    // bwrap's init and bash.
    expect(processes.stdout.text).toMatch(/^\/proc\/1 \/proc\/\d+\nalive\n$/)
  })

  it('X1 is refused what would lead out', async () => {
    const { run } = await open()
    const attempts: Record<string, string> = {
      'kernel settings': 'exec 3> /proc/sys/kernel/core_pattern',
      sysrq: 'exec 3> /proc/sysrq-trigger',
      'a mount': 'mount -t tmpfs none /mnt || mount --bind /tmp /mnt',
      'unmounting what hides': `umount ${ground.dataDirectory} || umount -l /run`,
      remounting: 'mount -o remount,rw /',
      'a user namespace': 'unshare -U true || unshare -Ur true',
      'a sandbox in the sandbox': 'bwrap --bind / / true',
      'becoming root': 'setpriv --reuid=0 true',
      'device files': 'mknod sda b 8 0',
      'the sockets of services': 'test -S /var/run/docker.sock || test -S /run/docker.sock',
      'the memory of the server': `cat /proc/${process.pid}/maps || cat /proc/${process.ppid}/maps`,
      'signals to the server': `kill -0 ${process.pid} || kill -0 ${process.ppid}`
    }
    const script = Object.values(attempts).map((attempt) => `(${attempt}) > /dev/null 2>&1; echo $?`)
    const { stdout } = await run(script.join('\n'))
    const codes = stdout.text.trim().split('\n')
    expect(Object.keys(attempts).filter((_name, at) => !(Number(codes[at]) > 0))).toEqual([])
  })

  it('X1 a setuid program gives it nothing', async () => {
    const { run } = await open()
    const copied = await run('cp "$(command -v id)" id && chmod u+s id && ./id -u')
    expect(copied.stdout.text).toBe(`${isRoot ? sandboxUid : process.getuid?.()}\n`)
  })

  it('X1 is bounded in processes, which are counted for each sandbox alone', async () => {
    const { run, shell, workspace } = await open({ maxProcesses: 32 })
    const sleeps = [uniqueSleep(), uniqueSleep()]
    const stop = new AbortController()
    const said = ['', '']
    const runs = sleeps.map((sleep, at) => {
      const command = `for i in $(seq 99); do sleep ${sleep} & done; wait`
      const policy = { mode: 'workspace-write' as const, workspaceRoot: workspace }
      const onOutput = (text: string) => void (said[at] += text)
      return shell.run(shell.resolve({ command, workdir: workspace, policy }), { signal: stop.signal, onOutput })
    })
    await until(() => said.every((text) => text.includes('Resource temporarily unavailable')), 30_000)
    for (const sleep of sleeps) {
      const { length } = processesWith(`sleep ${sleep} `).filter((line) => line.startsWith('sleep '))
      expect(length).toBeGreaterThan(16)
      expect(length).toBeLessThanOrEqual(32)
    }
    stop.abort()
    await Promise.all(runs)
    const bomb = await run('b() { b | b & }; b; sleep 0.2; echo over', 'workspace-write', 3_000)
    expect(bomb.timedOut || bomb.stdout.text.includes('over')).toBe(true)
    expect((await run('echo calm')).stdout.text).toBe('calm\n')
  })

  it('X1 is bounded in the size of files, of /tmp and of its memory', async () => {
    const { run } = await open()
    const { stdout } = await run(
      'head -c 2M /dev/zero > big; stat -c %s big; for i in 1 2 3 4; do head -c 900K /dev/zero > /tmp/$i; done; du -s /tmp | cut -f1'
    )
    const [file, tmp] = stdout.text.split('\n').map(Number)
    expect(file).toBeLessThanOrEqual(1_000_000)
    expect(tmp).toBeLessThanOrEqual(2_000)
    const small = await open({ maxMemoryBytes: 2 ** 30 })
    expect((await small.run('ulimit -v')).stdout.text).toBe(`${2 ** 20}\n`)
  })

  it('X3 sandboxes at the same time see neither /tmp nor processes of one another', async () => {
    const { run } = await open()
    // They share a workspace, where they wait for one another.
    const looks = (name: string) =>
      `touch ready-${name} /tmp/of-${name}; while [ $(ls ready-* | wc -l) -lt 3 ]; do sleep .02; done; ls /tmp; echo /proc/[0-9]*`
    const seen = await Promise.all(['a', 'b', 'c'].map((name) => run(looks(name))))
    for (const [at, { stdout }] of seen.entries())
      expect(stdout.text).toMatch(new RegExp(`^of-${'abc'[at]}\n/proc/1 /proc/\\d+\n$`))
  })

  it('has the network of the machine, or none', async () => {
    const server = createServer((socket) => socket.end('x'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const command = `exec 3<>/dev/tcp/127.0.0.1/${port}; cat <&3`
    expect((await (await open()).run(command)).stdout.text).toBe('x')
    expect((await (await open({ network: 'none' })).run(command)).exitCode).not.toBe(0)
  })

  it('ends with all that it started, also what left its session', async () => {
    const { run } = await open()
    const [left, late] = [uniqueSleep(), uniqueSleep()]
    const fork = (seconds: string) => `setsid sh -c '(sleep ${seconds} &) ' >/dev/null 2>&1`
    expect((await run(`${fork(left)}; echo done`)).stdout.text).toBe('done\n')
    await until(() => processesWith(left).length === 0)
    expect((await run(`env -i ${fork(late)}; sleep 60`, 'workspace-write', 700)).timedOut).toBe(true)
    expect(processesWith(late)).toEqual([])
  })

  it('R8 dies with the server', async () => {
    const sleep = uniqueSleep()
    const { workspace } = await open()
    const source = (path: string) => JSON.stringify(join(import.meta.dirname, '../../../server/backends', path))
    const options = { dataDirectory: ground.dataDirectory, uid: sandboxUid, environment: [], limits: testLimits }
    const program = `
      import { ManagedTrees } from ${source('subprocess/managed-trees.ts')}
      import { BwrapSandbox } from ${source('sandbox/bwrap-sandbox.ts')}
      const subprocesses = new ManagedTrees({ dataDirectory: ${JSON.stringify(join(workspace, 'another'))} })
      const sandbox = await BwrapSandbox.open({ subprocesses, ...${JSON.stringify(options)} })
      const { argv, env } = sandbox.confine(['bash', '-c', 'setsid sleep ${sleep} & echo up; wait'],
        { mode: 'read-only', workspaceRoot: ${JSON.stringify(workspace)} }, { workdir: '/' })
      const handle = subprocesses.spawn({ argv, env, cwd: '/', stdin: 'ignore', stdout: 'pipe', stderr: 'pipe', graceMs: 1000 })
      handle.stdout.once('data', () => process.kill(process.pid, 'SIGKILL'))`
    await execa('npx', ['tsx', '--input-type=module', '-e', program], { reject: false })
    await until(() => processesWith(`sleep ${sleep}`).length === 0)
  })

  it('stays in the session of a terminal, and has one of its own elsewhere', async () => {
    const sandbox = await ground.open()
    const policy = { mode: 'read-only' as const, workspaceRoot: '/usr' }
    const argvOf = (isTerminal: boolean) => sandbox.confine(['true'], policy, { workdir: '/', isTerminal }).argv
    expect(argvOf(false)).toContain('--new-session')
    expect(argvOf(true)).not.toContain('--new-session')
  })

  it('is told to end before it is ended', async () => {
    const { run } = await open()
    const tidy = await run(`trap 'echo tidy; exit 3' TERM; while :; do sleep .05; done`, 'workspace-write', 1500)
    expect(tidy).toMatchObject({ timedOut: true, exitCode: 3, stdout: { text: 'tidy\n' } })
    expect(await run('sleep 60', 'workspace-write', 700)).toMatchObject({
      timedOut: true,
      exitCode: null,
      signal: 'SIGTERM'
    })
    const stubborn = await run(`trap '' TERM; while :; do sleep 1; done`, 'workspace-write', 700)
    expect(stubborn).toMatchObject({ timedOut: true, exitCode: null, signal: 'SIGKILL' })
  })

  it('does not take the words of a command for a failure of the sandbox', async () => {
    const { run } = await open()
    const said = await run('echo "bwrap: no permissions" >&2; exit 1')
    expect(said).toMatchObject({ exitCode: 1, sandbox: { denied: false } })
    expect(said.sandbox).not.toHaveProperty('runnerFailed')
  })

  it('says which workspace cannot be given to it', async () => {
    const sandbox = await ground.open()
    const { dataDirectory } = ground
    const usable = (workspaceRoot: string) => sandbox.assertUsable({ mode: 'workspace-write', workspaceRoot })
    for (const path of [dataDirectory, '/', '/proc/sys', '/sys', '/dev/shm', '/run']) {
      await expect(usable(path)).rejects.toThrow(/cannot be a workspace/)
      const policy = { mode: 'read-only' as const, workspaceRoot: path }
      expect(() => sandbox.confine(['true'], policy, { workdir: '/' })).toThrow(SandboxError)
    }
    const closed = join(ground.directory('closed'), 'inside')
    ground.workspace('closed/inside')
    if (isRoot) {
      chmodSync(join(closed, '..'), 0o700)
      await expect(usable(closed)).rejects.toThrow(/cannot write in the workspace/)
      await expect(usable(ground.directory('of-root'))).rejects.toThrow(/cannot write in the workspace/)
    }
    await expect(usable(ground.workspace('fine'))).resolves.toBeUndefined()
  })

  it('blames neither the workspace nor itself when the process that starts others dies, and works with the next', async () => {
    const others = new Set(hostPids())
    const trees = new ManagedTrees({ dataDirectory: ground.dataDirectory })
    onTestFinished(() => trees.dispose())
    const sandbox = await ground.open({}, { subprocesses: trees })
    const policy = { mode: 'workspace-write' as const, workspaceRoot: ground.workspace('asked') }
    const lost = { code: 'SPAWN_FAILED', message: 'the process that owns the others failed: it ended with SIGKILL' }
    for (const ask of [() => sandbox.assertUsable(policy), () => sandbox.isBroken(policy)]) {
      trees.prepare()
      for (const pid of hostPids()) if (!others.has(pid)) process.kill(pid, 'SIGKILL')
      await expect(ask()).rejects.toMatchObject(lost)
    }
    await expect(sandbox.assertUsable(policy)).resolves.toBeUndefined()
    expect(await sandbox.isBroken(policy)).toBe(false)
    const dying = {
      resolveExecutable: (name: string) => trees.resolveExecutable(name),
      spawn: () => ({ done: Promise.reject(new ProcessLostError(new Error('it ended'))) })
    } as unknown as ManagedTrees
    await expect(ground.open({}, { subprocesses: dying })).rejects.toThrow(
      new SandboxError('bwrap could not be tried: the process that owns the others failed: it ended')
    )
  })

  it('SANDBOX_UNAVAILABLE when the sandbox fails later; nothing ran', async () => {
    const { shell, workspace } = await open()
    const policy = { mode: 'workspace-write' as const, workspaceRoot: join(workspace, 'gone') }
    const spec = shell.resolve({ command: 'touch ran', workdir: workspace, policy })
    await expect(shell.run(spec, { signal: new AbortController().signal })).rejects.toMatchObject({
      code: 'SANDBOX_UNAVAILABLE'
    })
    const background = shell.start(spec)
    await background.done
    expect(background.sandbox).toMatchObject({ runnerFailed: true, denied: false })
    expect(existsSync(join(workspace, 'ran'))).toBe(false)
  })

  it('runs nothing without a policy, and does not confine danger-full-access', async () => {
    const { shell, workspace, run } = await open()
    const spec = shell.resolve({ command: 'true', workdir: workspace })
    await expect(shell.run(spec, { signal: new AbortController().signal })).rejects.toThrow(SandboxError)
    expect(() => shell.start(spec)).toThrow(SandboxError)
    const free = await run('id -u; ls /proc | wc -l', 'danger-full-access')
    expect(free.stdout.text.split('\n')[0]).toBe(String(process.getuid?.()))
    expect(free.sandbox).toEqual({ mode: 'danger-full-access', denied: false })
    const sandbox = await ground.open()
    const policy = { mode: 'danger-full-access' as const, workspaceRoot: workspace }
    expect(() => sandbox.confine(['true'], policy, { workdir: '/' })).toThrow(TypeError)
  })

  it('tells of a denial in the background too', async () => {
    const { shell, workspace } = await open()
    const policy = { mode: 'read-only' as const, workspaceRoot: workspace }
    const command = shell.start(shell.resolve({ command: 'touch a', workdir: workspace, policy }))
    await command.done
    expect(command).toMatchObject({ status: 'completed', exitCode: 1, sandbox: { mode: 'read-only', denied: true } })
  })

  it('a workspace inside the data directory is seen, the rest of it is not; one around it does not open it', async () => {
    const inside = ground.workspace('data/workspaces/one')
    ground.workspace('data/workspaces/other')
    writeFileSync(join(ground.dataDirectory, 'secret'), canary)
    const sandbox = await ground.open()
    const shell = new SandboxShell(ground.trees, sandbox)
    const look = async (workspaceRoot: string) => {
      const policy = { mode: 'workspace-write' as const, workspaceRoot }
      const command = `cat ${ground.dataDirectory}/secret; ls ${ground.dataDirectory} ${ground.dataDirectory}/workspaces; touch ${inside}/mine`
      const spec = shell.resolve({ command, workdir: workspaceRoot, policy })
      return shell.run(spec, { signal: new AbortController().signal })
    }
    const seen = await look(inside)
    expect(seen.stdout.text).toBe(`${ground.dataDirectory}:\nworkspaces\n\n${ground.dataDirectory}/workspaces:\none\n`)
    expect(existsSync(join(inside, 'mine'))).toBe(true)
    expect(textOf(await look(join(ground.dataDirectory, '..')))).not.toContain(canary)
  })
})

describe('no sandbox', () => {
  it('X2 without bwrap there is none, and the reason is said', async () => {
    await expect(ground.open({}, { path: temporaryDirectory() })).rejects.toThrow(/bwrap is not installed/)
  })

  it('X2 one that does not work is none', async () => {
    const directory = temporaryDirectory()
    chmodSync(directory, 0o755)
    writeFileSync(join(directory, 'bwrap'), '#!/bin/sh\necho "bwrap: not today" >&2\nexit 1\n', { mode: 0o755 })
    await expect(ground.open({}, { path: `${directory}:${process.env['PATH']}` })).rejects.toThrow(/not today/)
  })

  it.runIf(isRoot)('never runs commands as root', async () => {
    await expect(ground.open({}, { uid: 0 })).rejects.toThrow(/never run as root/)
  })
})
