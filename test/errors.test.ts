import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { accept, block, deny } from '../server/pipeline/decisions.ts'
import { CodedError, errorTable } from '../server/errors.ts'
import { startApp } from './helpers/app.ts'
import { until } from './helpers/until.ts'

const page = readFileSync(resolve(import.meta.dirname, '../docs/errors.md'), 'utf8')

/** The cells of the table whose head begins with `first`. */
function tableOf(first: string): string[][] {
  const lines = page.slice(page.indexOf(`| ${first} |`)).split('\n')
  const end = lines.findIndex((line) => !line.startsWith('|'))
  return lines.slice(2, end).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim().replaceAll('`', ''))
  )
}

class OwnError extends CodedError {}

describe('docs/errors.md', () => {
  it('has every code of the table, with its status and message, and no other', () => {
    const expected = Object.entries(errorTable).map(([code, { status, message }]) => [code, String(status), message])
    expect(tableOf('code')).toEqual(expected)
  })

  it('says of each failure what the server says', async () => {
    const app = await startApp()
    const { tools } = app.app
    tools.addHook('preExecute', (exec, next) => {
      if (exec.callId === 'policy said no') return deny('no')
      if (exec.callId === 'hook failed') throw new Error('broke')
      return next()
    })
    tools.addHook('postExecute', async (exec, _result, next) =>
      exec.callId === 'blocked' ? block([{ type: 'text', text: 'no' }]) : ((await next()) ?? accept())
    )
    for (const idempotent of [false, true]) {
      tools.register({
        name: `body-${idempotent}`,
        description: 'Does what the test says.',
        parameters: { type: 'object' },
        output: { schema: { type: 'string' }, render: () => [] },
        timeoutMs: 50,
        idempotent,
        execute: (args, exec) => bodies[(args as { what: string }).what]?.(exec.signal)
      })
    }
    const bodies: Record<string, (signal: AbortSignal) => unknown> = {
      plain: () => {
        throw new Error('plain')
      },
      own: () => {
        throw new OwnError('OWN_CODE', 'own')
      },
      slow: (signal) => new Promise((resolve) => signal.addEventListener('abort', () => resolve('late'))),
      wrong: () => 1
    }
    const row = async (body: Record<string, unknown>, idempotentToo = true): Promise<string[]> => {
      const { error } = await app.invoke(body)
      const retryable = error?.retryable === true ? 'yes' : 'no'
      if (!idempotentToo) return [error?.info?.code ?? 'none', error?.info?.name ?? '', error?.effect ?? '', retryable]
      const [, , , other] = await row({ ...body, name: 'body-true' }, false)
      const both = other === retryable ? retryable : 'if idempotent'
      return [error?.info?.code ?? 'none', error?.info?.name ?? '', error?.effect ?? '', both]
    }
    const body = (what: string) => row({ name: 'body-false', arguments: { what } })
    const documented = tableOf('`info.code`').map((cells) => cells.slice(0, 4))
    const aborted = app.post('/invoke', { name: 'coop', callId: 'aborted' })
    await until(() => app.trace.includes('body:aborted'))
    await app.cancel('aborted')
    const { error } = (await aborted).body
    expect([
      await row({ name: 'need' }, false),
      await row({ name: 'nope' }, false),
      await row({ name: 'echo', callId: 'policy said no' }, false),
      await row({ name: 'echo', callId: 'hook failed' }, false),
      await body('plain'),
      (await body('own')).map((cell) => cell.replace('OWN_CODE', 'own code').replace('OwnError', 'own name')),
      await body('slow')
    ]).toEqual(documented.slice(0, 7))
    expect([error.info.code, error.info.name, error.effect]).toEqual(documented[7]?.slice(0, 3))
    expect([await body('wrong'), await row({ name: 'echo', callId: 'blocked' }, false)]).toEqual(
      documented.slice(9, 11)
    )
  })
})
