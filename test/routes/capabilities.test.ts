import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { BwrapSandbox } from '../../server/backends/sandbox/bwrap-sandbox.ts'
import { sandboxGround } from '../helpers/sandbox.ts'
import { serveApp, type ServedApp } from '../helpers/served-app.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'

interface Backend {
  seam: string
  backend: string
  confines: string[]
  sandbox?: string
  unavailable?: string
}

async function backendsOf({ call }: ServedApp, token?: string): Promise<Map<string, Backend>> {
  const answer = await call('/capabilities', token === undefined ? {} : { token })
  expect(answer.status).toBe(200)
  const { backends } = (await answer.json()) as { backends: Backend[] }
  return new Map(backends.map((backend) => [backend.seam, backend]))
}

describe('GET /capabilities (api.md §9)', () => {
  it('S29 what is unconfined confines nothing, and says so to every role, and to nobody without a token', async () => {
    const served = await serveApp({ 'shell.executor': 'bash-local', 'codeRuntime.backend': 'worker-thread' })
    for (const role of ['agent', 'observer', 'operator', 'provider', 'admin'] as const) {
      const backends = await backendsOf(served, await served.tokenFor(role))
      expect(backends.get('shell')).toEqual({ seam: 'shell', backend: 'bash-local', confines: [] })
      expect(backends.get('terminals')).toMatchObject({ confines: [] })
      expect(backends.get('code-runtime')).toEqual({ seam: 'code-runtime', backend: 'worker-thread', confines: [] })
      expect(backends.get('files')).toMatchObject({ backend: 'local', confines: ['state'] })
      expect(backends.get('web-fetch')).toMatchObject({ backend: 'http', confines: ['addresses'] })
      expect(backends.has('web-search')).toBe(false)
    }
    expect((await served.call('/capabilities', { token: 'nobody' })).status).toBe(401)
  })

  it('what is not configured is not there; a service for searches is', async () => {
    const backends = await backendsOf(await serveApp({ 'web.searxngUrl': 'http://127.0.0.1:9' }))
    expect(backends.has('code-runtime')).toBe(false)
    expect(backends.get('web-search')).toEqual({ seam: 'web-search', backend: 'searxng', confines: [] })
  })

  it('programs of a process are confined as far as this machine lets them be', async () => {
    const served = await serveApp({ 'codeRuntime.backend': 'process' })
    const { pidNamespace, ownUser, limits } = (await served.app.codeRuntime)!.containment
    const { confines } = (await backendsOf(served)).get('code-runtime')!
    expect(['processes', 'user', 'limits'].map((name) => confines.includes(name))).toEqual([
      pidNamespace,
      ownUser,
      limits
    ])
  })

  it('X2 a sandbox that does not work is told with its reason', async () => {
    const directory = temporaryDirectory()
    writeFileSync(join(directory, 'env'), '', { mode: 0o755 })
    const path = process.env['PATH']
    process.env['PATH'] = directory
    const served = await serveApp({ 'shell.executor': 'bash-sandbox' }).finally(() => {
      process.env['PATH'] = path
    })
    expect((await backendsOf(served)).get('shell')).toEqual({
      seam: 'shell',
      backend: 'bash-sandbox',
      confines: [],
      unavailable: 'there is no bash: bwrap is not installed'
    })
  })
})

const ground = sandboxGround()
const probed = await ground.open().catch((error: unknown) => error)

describe.skipIf(!(probed instanceof BwrapSandbox))('where commands are confined', { timeout: 60_000 }, () => {
  it('it says from what, the network only where it is taken away', async () => {
    const expected = ['writes', 'state', 'environment', 'processes', 'limits']
    const user = process.getuid?.() === 0 ? ['user'] : []
    expect((probed as BwrapSandbox).confines).toEqual([...expected, ...user])
    expect((await ground.open({ network: 'none' })).confines).toEqual([...expected, ...user, 'network'])
    const served = await serveApp({ 'shell.executor': 'bash-sandbox' })
    const backends = await backendsOf(served)
    for (const seam of ['shell', 'terminals', 'search']) {
      expect(backends.get(seam)).toMatchObject({ sandbox: 'bwrap', confines: expect.arrayContaining(expected) })
    }
    expect(backends.get('files')).toMatchObject({ confines: ['writes', 'state'] })
  })
})
