import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type ServedApp, serveApp } from '../helpers/served-app.ts'
import { until } from '../helpers/until.ts'

const examples = resolve(import.meta.dirname, '../../docs/examples')

/** An example as a process of its own. */
class Example {
  output = ''
  readonly exited: Promise<number | null>
  readonly #child: ChildProcess

  constructor(command: readonly string[], env: Record<string, string>) {
    const [program = '', ...args] = command
    this.#child = spawn(program, args, { cwd: examples, env: { ...process.env, ...env } })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.output += String(chunk)))
    }
    this.exited = once(this.#child, 'exit').then(([code]) => code as number | null)
    onTestFinished(() => void this.#child.kill('SIGKILL'))
  }

  count(text: string): number {
    return this.output.split(text).length - 1
  }
}

const callOn =
  ({ call }: ServedApp) =>
  async (name: string, args: Record<string, unknown>, callId?: string) =>
    (await (
      await call('/invoke', { json: { name, arguments: args, ...(callId === undefined ? {} : { callId }) } })
    ).json()) as any

describe.each([
  ['provider.mjs', [process.execPath, 'provider.mjs']],
  ['provider.py', ['python3', '-B', 'provider.py']]
])('docs/examples/%s', (_file, command) => {
  it('serves its tools, comes back after each loss of its socket, runs no call twice, and ends with its token', async () => {
    const served = await serveApp({ 'providers.graceMs': '60000' })
    const invoke = callOn(served)
    const token = await served.tokenFor('provider')
    const example = new Example(command, {
      TOOLWRIGHT_URL: `http://127.0.0.1:${served.port}`,
      TOOLWRIGHT_TOKEN: token
    })
    const cut = (): void => served.app.connections.close(() => true, 1013, 'stalled')
    await until(() => example.output.includes('provided word_count countdown'), 30_000)

    expect((await invoke('word_count', { text: 'eins zwei  drei' })).value).toBe(3)
    expect((await invoke('word_count', { text: 'zwölf '.repeat(60_000) })).value).toBe(60_000)
    expect((await invoke('word_count', { text: 7 })).error.info.code).toBe('INVALID_ARGS')

    // It answers while it has no socket.
    const lost = invoke('countdown', { from: 1, stepMs: 20 })
    await until(() => example.count('run countdown') === 1)
    cut()
    expect((await lost).value).toBe('lift-off')
    // It is back before it answers.
    const long = invoke('countdown', { from: 8, stepMs: 100 })
    await until(() => example.count('run countdown') === 2)
    cut()
    expect((await long).value).toBe('lift-off')
    expect(example.count('run countdown')).toBe(2)
    expect(example.count('provided word_count')).toBeGreaterThanOrEqual(3)

    const given = invoke('countdown', { from: 60 }, 'given-up')
    await until(() => example.count('run countdown') === 3)
    await served.call('/calls/default/given-up/cancel', { json: {} })
    expect((await given).error.info.code).toBe('ABORTED')
    expect((await invoke('word_count', { text: 'still here' })).value).toBe(2)

    await served.app.tokens.revoke(token.split('_')[1] as string)
    expect(await example.exited).toBe(1)
    expect(example.output).toContain('the token is not good any more')
  })
})
