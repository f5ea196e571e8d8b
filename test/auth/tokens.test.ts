import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { adminTokenPlace, ensureAdminToken, PresetTokenError, readPresetToken } from '../../server/auth/admin-token.ts'
import { AccessTokens } from '../../server/auth/tokens.ts'
import { loadConfig } from '../../server/config/load.ts'
import { StoreUnavailableError } from '../../server/event-log/event-log.ts'
import { openMemoryLog } from '../../server/event-log/memory-log.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'

const agent = { label: 'l', role: 'agent', scope: 'a' } as const

describe('AccessTokens', () => {
  it('a token stands for its principal, also after a restart, and only its hash is stored', async () => {
    const log = openMemoryLog()
    const { token, info } = await (await AccessTokens.open(log)).create(agent)
    expect(token).toMatch(/^tw_[0-9a-f]{16}_[\w-]{43}$/)
    const again = await AccessTokens.open(log)
    expect(again.verify(token)).toEqual({ tokenId: info.id, label: 'l', role: 'agent', scope: 'a' })
    expect(again.list()).toEqual([info])
    expect(JSON.stringify(await log.rows('access_tokens', {}))).not.toContain(token.split('_')[2])
  })

  it('nothing else stands for it', async () => {
    const tokens = await AccessTokens.open(openMemoryLog(), { preset: 'preset-token' })
    const { token, info } = await tokens.create(agent)
    const [, id, secret] = token.split('_') as [string, string, string]
    const hash = (await tokens.create(agent)).token.split('_')[2] as string
    for (const text of [
      '',
      'tw_',
      id,
      secret,
      `tw_${id}_`,
      `tw_${id}_${secret.slice(1)}`,
      `tw_${id}_${secret}x`,
      `tw_${id.toUpperCase()}_${secret}`,
      `tw_${id}_${hash}`,
      ` ${token}`,
      `${token} `,
      'preset-toke',
      'preset-token ',
      'constructor',
      `tw_${'0'.repeat(16)}_${secret}`
    ]) {
      expect([text, tokens.verify(text)]).toEqual([text, undefined])
    }
    expect(tokens.verify(token)?.tokenId).toBe(info.id)
    expect(tokens.verify('preset-token')).toMatchObject({ role: 'admin', scope: 'global', tokenId: 'preset' })
  })

  it('a revoked token is refused, at once and after a restart, and listeners hear of it once', async () => {
    const log = openMemoryLog()
    const tokens = await AccessTokens.open(log)
    const { token, info } = await tokens.create(agent)
    const heard = vi.fn()
    const undo = tokens.onRevoked(heard)
    const both = await Promise.all([tokens.revoke(info.id), tokens.revoke(info.id)])
    expect(both.filter(Boolean)).toHaveLength(1)
    expect(heard.mock.calls).toEqual([[info.id]])
    expect(tokens.verify(token)).toBeUndefined()
    expect(tokens.isLive(info.id)).toBe(false)
    expect(await tokens.revoke(info.id)).toBe(false)
    expect((await AccessTokens.open(log)).verify(token)).toBeUndefined()
    undo()
  })

  it('an expired token is refused and not listed', async () => {
    let now = 1_000
    const tokens = await AccessTokens.open(openMemoryLog(), { now: () => now })
    const { token, info } = await tokens.create({ ...agent, ttlMs: 50 })
    expect(info).toMatchObject({ createdAt: 1_000, expiresAt: 1_050 })
    now = 1_049
    expect(tokens.verify(token)).toBeDefined()
    now = 1_050
    expect(tokens.verify(token)).toBeUndefined()
    expect(tokens.list()).toEqual([])
  })

  it('a token that could not be stored never existed', async () => {
    const log = openMemoryLog()
    const tokens = await AccessTokens.open(log)
    await log.close()
    let seen = ''
    const made = tokens.create(agent, async (token) => void (seen = token))
    await expect(made).rejects.toThrow(StoreUnavailableError)
    expect(tokens.verify(seen)).toBeUndefined()
    expect(tokens.list()).toEqual([])
  })

  it('the preset is not listed and cannot be revoked', async () => {
    const tokens = await AccessTokens.open(openMemoryLog(), { preset: 'p' })
    expect(tokens.list()).toEqual([])
    expect(await tokens.revoke('preset')).toBe(false)
    expect(tokens.isLive('preset')).toBe(true)
    expect((await AccessTokens.open(openMemoryLog())).isLive('preset')).toBe(false)
  })
})

describe('the first admin token', () => {
  const configIn = (home: string, env: Record<string, string> = {}) =>
    loadConfig({ env: { TOOLWRIGHT_HOME: home, ...env } }).config

  it('is made at the first start alone, for its owner alone', async () => {
    const home = join(temporaryDirectory(), 'new', 'home')
    const log = openMemoryLog()
    const tokens = await AccessTokens.open(log)
    await ensureAdminToken(tokens, configIn(home))
    const path = join(home, 'admin-token')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(statSync(home).mode & 0o777).toBe(0o700)
    const token = readFileSync(path, 'utf8')
    expect(tokens.verify(token.trim())).toMatchObject({ role: 'admin', scope: 'global' })
    expect(token).toMatch(/^\S+\n$/)

    const later = await AccessTokens.open(log)
    await later.revoke(later.list()[0]?.id ?? '')
    await ensureAdminToken(later, configIn(home))
    expect(readFileSync(path, 'utf8')).toBe(token)
    expect(later.list()).toEqual([])
  })

  it('a file that lies there from before keeps neither its token nor its mode', async () => {
    const home = temporaryDirectory()
    const path = join(home, 'admin-token')
    writeFileSync(path, 'old', { mode: 0o644 })
    const tokens = await AccessTokens.open(openMemoryLog())
    await ensureAdminToken(tokens, configIn(home))
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(tokens.verify(readFileSync(path, 'utf8').trim())).toBeDefined()
  })

  it('is not made when its file cannot be written', async () => {
    const home = join(temporaryDirectory(), 'file')
    writeFileSync(home, '')
    const tokens = await AccessTokens.open(openMemoryLog())
    await expect(ensureAdminToken(tokens, configIn(home))).rejects.toThrow()
    expect(tokens.isFirstStart).toBe(true)
  })

  it('is not made when a token is preset, by variable or by file', async () => {
    const home = temporaryDirectory()
    const file = join(home, 'token')
    writeFileSync(file, '  from-the-file\n')
    for (const [env, token] of [
      [{ TOOLWRIGHT_TOKEN: 'from-the-variable' }, 'from-the-variable'],
      [{ TOOLWRIGHT_TOKEN_FILE: file }, 'from-the-file']
    ] as const) {
      const config = configIn(home, env)
      const preset = await readPresetToken(config)
      expect(preset).toBe(token)
      const tokens = await AccessTokens.open(openMemoryLog(), { preset: preset as string })
      await ensureAdminToken(tokens, config)
      expect(tokens.verify(token)?.role).toBe('admin')
      expect(existsSync(join(home, 'admin-token'))).toBe(false)
    }
  })

  it('a preset that is no word, or cannot be read, stops the start', async () => {
    const home = temporaryDirectory()
    const file = join(home, 'token')
    for (const text of ['', '\n', 'two words', 'tab\there', 'ümlaut', 'two\nlines']) {
      writeFileSync(file, text)
      await expect(readPresetToken(configIn(home, { TOOLWRIGHT_TOKEN_FILE: file }))).rejects.toThrow(PresetTokenError)
    }
    await expect(readPresetToken(configIn(home, { TOOLWRIGHT_TOKEN_FILE: join(home, 'nowhere') }))).rejects.toThrow(
      'nowhere'
    )
    expect(await readPresetToken(configIn(home))).toBeUndefined()
  })

  it('says where the token is as a word that a shell expands to it', () => {
    expect(adminTokenPlace(configIn('/a b/c'))).toEqual({
      shellWord: "$(cat '/a b/c/admin-token')",
      text: 'in /a b/c/admin-token'
    })
    expect(adminTokenPlace(configIn('/a'))).toEqual({ shellWord: '$(cat /a/admin-token)', text: 'in /a/admin-token' })
    expect(adminTokenPlace(configIn('/a', { TOOLWRIGHT_TOKEN: 'canary' }))).toEqual({
      shellWord: '$TOOLWRIGHT_TOKEN',
      text: 'as configured'
    })
  })
})
