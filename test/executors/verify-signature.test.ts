import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { describe, expect, it, onTestFinished } from 'vitest'
import { signatureHeader, signatureOf, signingSecret } from '../../server/executors/http-executor-signature.ts'
import { httpExecutor, httpToolClient, wireCall } from '../helpers/http-tools.ts'

const examples = resolve(import.meta.dirname, '../../docs/examples')

async function startExample(program: string, file: string, secret: string): Promise<string> {
  const child = spawn(program, [resolve(examples, file), '0'], {
    env: { PATH: process.env['PATH'], TOOL_SECRET: secret },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  return /http:\S+/.exec(line)?.[0] ?? ''
}

describe.each([
  [process.execPath, 'verify-signature.mjs'],
  ['python3', 'verify-signature.py']
])('docs/examples, %s %s', (program, file) => {
  it('answers calls that are signed with its secret, and no others', async () => {
    const secret = signingSecret('m'.repeat(32), 'team-a', 'http://127.0.0.1')
    const url = await startExample(program, file, secret)
    const client = httpToolClient()
    const run = (text: string, signedWith = secret) =>
      httpExecutor(url, client, signedWith).run(wireCall({ arguments: { text } }))
    expect(await run('Grüße')).toEqual({ value: 'eßürG' })
    await expect(run('')).rejects.toMatchObject({ code: 'EMPTY_TEXT' })
    const other = signingSecret('m'.repeat(32), 'team-b', 'http://127.0.0.1')
    expect(other).not.toBe(secret)
    await expect(run('x', other)).rejects.toMatchObject({ code: 'BAD_SIGNATURE' })

    const body = JSON.stringify({ arguments: { text: 'abc' } })
    const ask = async (time: number, signed: string, sent = body) => {
      const headers = {
        [signatureHeader]: signatureOf(secret, time, Buffer.from(signed)),
        'x-toolwright-deadline': String(Date.now() + 60_000)
      }
      return (await fetch(url, { method: 'POST', headers, body: sent })).status
    }
    expect(await ask(Date.now(), body)).toBe(200)
    expect(await ask(Date.now() - 3_600_000, body)).toBe(401)
    expect(await ask(Date.now(), body, body.replace('abc', 'xyz'))).toBe(401)
    expect((await fetch(url, { method: 'POST', body })).status).toBe(401)
  })
})
