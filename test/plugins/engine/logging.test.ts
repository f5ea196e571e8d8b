import { describe, expect, it } from 'vitest'
import { createLogger } from '../../../plugins/engine/logging.ts'
import { Secret } from '../../../server/config/secret.ts'
import { strikeOut } from '../../../server/json/strike-out.ts'
import { startWireApp } from '../../helpers/wire-app.ts'

function capture(secrets: string[] = []) {
  const lines: string[] = []
  const stream = { write: (line: string) => void lines.push(line) }
  return { lines, logger: createLogger({ level: 'trace' }, { strikeOut: strikeOut(secrets), stream }) }
}

describe('createLogger', () => {
  it('strikes the configured secrets out of every line', () => {
    const { lines, logger } = capture(['s3cret"canary'])
    logger.info('the token is s3cret"canary')
    logger.error({ err: new Error('s3cret"canary'), deep: { more: ['s3cret"canary'] } }, 'x')
    expect(lines.join('')).not.toContain('canary')
    for (const line of lines) expect(() => JSON.parse(line) as unknown).not.toThrow()
  })

  it('prints no secret value and no field of a token’s name', () => {
    const { lines, logger } = capture()
    logger.info({
      config: { value: new Secret('canary') },
      token: 'canary',
      headers: { authorization: 'canary' },
      a: { authorization: 'canary' }
    })
    expect(lines.join('')).not.toContain('canary')
  })

  it('stays one line whatever the text', () => {
    const { lines, logger } = capture()
    logger.info('a\nb\r\u001b[31m\u2028{"level":60}')
    expect(lines).toHaveLength(1)
    expect(lines[0]?.trimEnd().split('\n')).toHaveLength(1)
  })

  it('a request is logged with its id and path, without query, body and headers', async () => {
    const lines: string[] = []
    const { call } = await startWireApp({ stream: { write: (line) => void lines.push(line) } })
    const answer = await call('/tickets?x=query-canary', {
      json: { more: 'body-canary' },
      headers: { 'x-more': 'header-canary' }
    })
    const log = lines.join('')
    expect(log).toContain(answer.headers.get('x-request-id'))
    expect(log).toContain('"url":"/tickets"')
    expect(log).not.toMatch(/canary/)
  })

  it('a client cannot choose the id of its request', async () => {
    const { call } = await startWireApp()
    const answer = await call('/tokens', { headers: { 'request-id': 'mine', 'x-request-id': 'mine' } })
    expect(answer.headers.get('x-request-id')).toMatch(/^req-[\w-]{8}-\d+$/)
  })
})
