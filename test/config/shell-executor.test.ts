import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { ConfigError, loadConfig } from '../../server/config/load.ts'
import { shellExecutor } from '../../server/config/shell-executor.ts'

const load = (settings: Record<string, string>) => loadConfig({ flags: new Map(Object.entries(settings)) }).config

describe('shellExecutor (reliability.md, decisions)', () => {
  it.each([
    [{}, 'bash-local'],
    [{ host: '::1' }, 'bash-local'],
    [{ host: '0.0.0.0', allowRemote: 'true' }, 'bash-sandbox'],
    [{ host: '0.0.0.0', allowRemote: 'true', 'shell.executor': 'bash-local' }, 'bash-local'],
    [{ 'shell.executor': 'bash-sandbox' }, 'bash-sandbox'],
    [{ 'shell.executor': 'pwsh-local' }, 'pwsh-local'],
    [{ 'sandbox.required': 'true' }, 'bash-sandbox']
  ])('%j is %s', (settings, executor) => {
    expect(shellExecutor(load(settings as Record<string, string>))).toBe(executor)
  })

  it('the image confines by itself, wherever it is told to listen', () => {
    const [, settings = ''] =
      /^ENV (.*)$/m.exec(readFileSync(new URL('../../Dockerfile', import.meta.url), 'utf8')) ?? []
    const given = Object.fromEntries(settings.split(' ').map((pair) => pair.split('=')))
    const env = { ...given, TOOLWRIGHT_HOST: '127.0.0.1' }
    expect(shellExecutor(loadConfig({ env }).config)).toBe('bash-sandbox')
  })
})

describe('the settings of the sandbox', () => {
  it.each([
    [{ 'shell.executor': 'bash-local' }, /forbids shell.executor bash-local/],
    [{ 'shell.executor': 'pwsh-local' }, /forbids shell.executor pwsh-local/],
    [{ 'sandbox.mode': 'danger-full-access' }, /forbids the mode danger-full-access/],
    [{ 'sandbox.scopes': '{"a":"danger-full-access"}' }, /forbids the mode danger-full-access/]
  ])('required contradicts %j', (settings, message) => {
    const all = { ...settings, 'sandbox.required': 'true' }
    expect(() => load(all as Record<string, string>)).toThrow(ConfigError)
    expect(() => load(all as Record<string, string>)).toThrow(message)
    expect(() => load(settings as Record<string, string>)).not.toThrow()
  })

  it.each([
    '{"custom":{"sandbox":"read-only","approval":"ask"}}',
    '{"1":{"sandbox":"read-only","approval":"ask"}}',
    '{"a":{"sandbox":"none","approval":"ask"}}',
    '{"a":{"sandbox":"read-only"}}',
    '{"a":{"sandbox":"read-only","approval":"ask","more":1}}'
  ])('%s is no table of presets', (table) => {
    expect(() => load({ 'presets.table': table })).toThrow(ConfigError)
  })

  it('takes a table of its own, in its order', () => {
    const table = '{"zeta":{"sandbox":"read-only","approval":"never"},"alpha":{"sandbox":"read-only","approval":"ask"}}'
    expect(Object.keys(load({ 'presets.table': table }).presets.table)).toEqual(['zeta', 'alpha'])
  })
})
