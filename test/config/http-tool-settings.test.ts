import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../server/config/load.ts'

const load = (settings: Record<string, unknown>) =>
  loadConfig({
    flags: new Map(Object.entries(settings).map(([key, value]) => [`httpTools.${key}`, JSON.stringify(value)]))
  }).config.httpTools

const base = { origins: ['https://api.example'], secretFile: '/run/secrets/x' }

describe('httpTools', () => {
  it('takes credentials of each kind', () => {
    const credentials = {
      a: { type: 'bearer', ...base },
      b: { type: 'basic', user: 'me', ...base, scopes: ['team-a'] },
      c: { type: 'apiKey', in: 'query', name: 'api_key', ...base }
    }
    expect(load({ credentials }).credentials).toEqual(credentials)
  })

  it.each([
    ['a secret instead of its file', { type: 'bearer', origins: base.origins, secret: 'x' }],
    ['a file that is relative', { type: 'bearer', ...base, secretFile: 'x' }],
    ['no origin', { type: 'bearer', ...base, origins: [] }],
    ['an origin with a path', { type: 'bearer', ...base, origins: ['https://api.example/v1'] }],
    ['a name that is two headers', { type: 'apiKey', in: 'header', name: 'a: b\r\nc', ...base }],
    ['a user with a colon', { type: 'basic', user: 'a:b', ...base }],
    ['another type', { type: 'oauth', ...base }]
  ])('refuses credentials with %s', (_name, credential) => {
    expect(() => load({ credentials: { it: credential } })).toThrow('httpTools.credentials')
  })

  it('takes hosts, and nothing that is none', () => {
    const allowHosts = ['tools.example', 'tools.example:8443', '*.example', '[::1]:80', '127.0.0.1']
    expect(load({ allowHosts }).allowHosts).toEqual(allowHosts)
    for (const host of ['https://tools.example', 'tools.example/x', '*', 'a b', '']) {
      expect(() => load({ allowHosts: [host] }), host).toThrow('httpTools.allowHosts')
    }
  })
})
