import { chmodSync, existsSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { mayWrite } from '../../server/backends/sandbox/write-fence.ts'
import { HomeApp } from '../helpers/home-app.ts'
import { sandboxGround, sandboxUid } from '../helpers/sandbox.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

const isRoot = process.getuid?.() === 0
const ground = sandboxGround()
const canConfine = await ground.open().then(
  () => true,
  () => false
)

describe.skipIf(!canConfine)('file tools, where commands are confined', { timeout: 60_000 }, () => {
  it('C78 write as the mode of the session lets them, and as a person does this once', async () => {
    const base = temporaryDirectory()
    chmodSync(base, 0o755)
    const app = await HomeApp.start({ home: join(base, 'home'), 'shell.executor': 'bash-sandbox' })
    const cwd = ground.workspace('workspace')
    const outside = ground.directory('outside')
    symlinkSync(outside, join(cwd, 'link'))
    await app.ask('PUT', '/sessions/s', { cwd })
    const call = (name: string, args: object) =>
      app.ask('POST', '/invoke', { session: 's', name, arguments: args }).then(({ body }) => body)
    const write = (file_path: string, more: object = {}) => call('write', { file_path, content: 'text\n', ...more })
    const denied = (mode: string) => ({
      isError: true,
      error: {
        message: expect.stringMatching(
          new RegExp(`\\n\\[sandbox: file access denied under ${mode} mode\\]\\n.*sandbox_permissions.*$`)
        ),
        info: { code: 'FS_SANDBOX_DENIED' }
      }
    })

    expect(await write('sub/a')).toMatchObject({ isError: false })
    expect(await write(join(base, 'in-tmp'))).toMatchObject({ isError: false })
    for (const path of [join(outside, 'x'), 'link/x', '../x', '/etc/toolwright-was-here'])
      expect(await write(path), path).toMatchObject(denied('workspace-write'))
    expect(await write(join(app.home, 'x'))).toMatchObject({ isError: true })
    expect(existsSync(join(outside, 'x'))).toBe(false)

    // What the server wrote is the commands' too.
    const { value } = await call('bash', { command: 'echo more >> sub/a && cat sub/a', description: 'test' })
    expect(value.stdout.text).toBe('text\nmore\n')
    if (isRoot) expect(statSync(join(cwd, 'sub/a')).uid).toBe(sandboxUid)

    await app.ask('PUT', '/sessions/s/permissions', { sandbox: 'read-only' })
    expect(await write('b')).toMatchObject(denied('read-only'))
    expect(await call('read', { file_path: 'sub/a' })).toMatchObject({ isError: false })
    expect(await call('edit', { file_path: 'sub/a', old_string: 'more', new_string: 'less' })).toMatchObject(
      denied('read-only')
    )

    const escalation = { sandbox_permissions: 'workspace-write', justification: 'to see' }
    const asking = call('edit', { file_path: 'sub/a', old_string: 'more', new_string: 'less', ...escalation })
    let approvals: any[] = []
    await until(async () => {
      approvals = (await app.ask('GET', '/approvals')).body.approvals
      return approvals.length === 1
    })
    expect(readFileSync(join(cwd, 'sub/a'), 'utf8')).toBe('text\nmore\n')
    await app.ask('POST', `/approvals/${approvals[0].id}`, { decision: 'allow' })
    expect(await asking).toMatchObject({ isError: false })
    expect(readFileSync(join(cwd, 'sub/a'), 'utf8')).toBe('text\nless\n')
    // One mode further, not two.
    expect(await write('c')).toMatchObject(denied('read-only'))
  })
})

describe('mayWrite', () => {
  const base = ground.directory('fence')
  const data = join(base, 'data')
  const root = join(base, 'workspace')
  const policy = { mode: 'workspace-write' as const, workspaceRoot: root }

  it('takes the workspace and the temporary directories, never a bare prefix', () => {
    expect(mayWrite(join(root, 'a'), policy, data)).toBe(true)
    expect(mayWrite(root, policy, data)).toBe(true)
    expect(mayWrite('/tmp/a', policy, data)).toBe(true)
    expect(mayWrite(`${root}-other/a`, policy, data)).toBe(false)
    expect(mayWrite('/tmpfile', policy, data)).toBe(false)
    expect(mayWrite('/', policy, data)).toBe(false)
    expect(mayWrite(join(root, 'a'), { ...policy, mode: 'read-only' }, data)).toBe(false)
    expect(mayWrite('/etc/passwd', { ...policy, mode: 'danger-full-access' }, data)).toBe(true)
  })

  it('keeps the data directory closed, also around it and in /tmp, save for a workspace inside', () => {
    const around = { ...policy, workspaceRoot: base }
    expect(mayWrite(join(data, 'log'), around, data)).toBe(false)
    expect(mayWrite(join(base, 'other'), around, data)).toBe(true)
    expect(mayWrite('/tmp/data/log', policy, '/tmp/data')).toBe(false)
    const inside = { ...policy, workspaceRoot: join(data, 'workspaces/one') }
    expect(mayWrite(join(data, 'workspaces/one/a'), inside, data)).toBe(true)
    expect(mayWrite(join(data, 'workspaces/two/a'), inside, data)).toBe(false)
    expect(mayWrite(join(data, 'log'), { ...policy, workspaceRoot: data }, data)).toBe(false)
  })
})
