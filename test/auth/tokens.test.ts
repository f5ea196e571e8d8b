import { existsSync, rmSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import {
  adminTokenPlace,
  ensureAdminToken,
  PresetTokenError,
  readPresetToken,
  rotateToken,
  settleAdminToken
} from '../../server/auth/admin-token.ts'
import type { Principal } from '../../server/auth/principal.ts'
import { AccessTokens, type TokenInfo } from '../../server/auth/tokens.ts'
import { loadConfig } from '../../server/config/load.ts'
import { StoreUnavailableError } from '../../server/event-log/event-log.ts'
import { openMemoryLog } from '../../server/event-log/memory-log.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'

type RotatedToken = { token: string; info: TokenInfo }

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
    const undo = tokens.onEnded(heard)
    const both = await Promise.all([tokens.revoke(info.id), tokens.revoke(info.id)])
    expect(both.filter(Boolean)).toHaveLength(1)
    expect(heard).toHaveBeenCalledTimes(1)
    expect(tokens.verify(token)).toBeUndefined()
    expect(tokens.isLive({ tokenId: info.id })).toBe(false)
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
    expect(tokens.isLive({ tokenId: 'preset' })).toBe(true)
    expect((await AccessTokens.open(openMemoryLog())).isLive({ tokenId: 'preset' })).toBe(false)
  })
})

describe('rotation', () => {
  const secretOf = (tokens: AccessTokens, token: string): Principal => tokens.verify(token) as Principal

  it('gives the same token a new secret; the old one ends at once, and who came with it is told apart', async () => {
    const log = openMemoryLog()
    const tokens = await AccessTokens.open(log)
    const { token: old, info } = await tokens.create(agent)
    const before = secretOf(tokens, old)
    const heard = vi.fn()
    tokens.onEnded(heard)
    const { token } = (await tokens.rotate(info.id, {})) as { token: string }
    expect(token).toMatch(new RegExp(`^tw_${info.id}_[\\w-]{43}$`))
    expect(tokens.verify(old)).toBeUndefined()
    expect([tokens.isLive(before), tokens.isLive(secretOf(tokens, token))]).toEqual([false, true])
    expect(heard).toHaveBeenCalledTimes(1)
    expect(tokens.list()).toEqual([info])
    const again = await AccessTokens.open(log)
    expect([again.verify(old), again.verify(token)?.tokenId]).toEqual([undefined, info.id])
    expect(await tokens.rotate('0'.repeat(16), {})).toBeUndefined()
    expect(await tokens.rotate('preset', {})).toBeUndefined()
  })

  it('with an overlap both are good until it ends, also over a restart, and never three', async () => {
    let now = 1_000
    const log = openMemoryLog()
    const open = () => AccessTokens.open(log, { now: () => now })
    const tokens = await open()
    const { token: first, info } = await tokens.create(agent)
    const { token: second, info: shown } = (await tokens.rotate(info.id, { overlapMs: 50 })) as RotatedToken
    expect(shown.previousUntil).toBe(1_050)
    const again = await open()
    for (const each of [tokens, again]) {
      now = 1_049
      const [before, after] = [secretOf(each, first), secretOf(each, second)]
      expect(before.secret ?? 0).toBe((after.secret ?? 0) - 1)
      now = 1_050
      expect([each.verify(first), each.isLive(before), each.isLive(after)]).toEqual([undefined, false, true])
      expect(each.list()).toEqual([info])
    }
    now = 1_010
    const { token: third } = (await tokens.rotate(info.id, { overlapMs: 50 })) as RotatedToken
    expect([first, second, third].map((token) => tokens.verify(token) !== undefined)).toEqual([false, true, true])
    await tokens.revoke(info.id)
    expect([second, third].map((token) => tokens.verify(token))).toEqual([undefined, undefined])
  })

  it('keeps the expiry or sets another, and does not bring back what has expired', async () => {
    let now = 0
    const tokens = await AccessTokens.open(openMemoryLog(), { now: () => now })
    const { info } = await tokens.create({ ...agent, ttlMs: 100 })
    expect(((await tokens.rotate(info.id, { overlapMs: 500 })) as RotatedToken).info.expiresAt).toBe(100)
    now = 50
    expect(((await tokens.rotate(info.id, { ttlMs: 100 })) as RotatedToken).info.expiresAt).toBe(150)
    now = 150
    expect(await tokens.rotate(info.id, { ttlMs: 100 })).toBeUndefined()
  })

  it('of rotations at a time the last one counts, and a revocation beats them', async () => {
    const log = openMemoryLog()
    const tokens = await AccessTokens.open(log)
    const { info } = await tokens.create(agent)
    const made = await Promise.all([1, 2, 3].map(() => tokens.rotate(info.id, {})))
    const texts = made.map((each) => each?.token as string)
    for (const each of [tokens, await AccessTokens.open(log)]) {
      expect(texts.map((text) => each.verify(text) !== undefined)).toEqual([false, false, true])
    }
    const [revoked] = await Promise.all([tokens.revoke(info.id), tokens.rotate(info.id, {})])
    expect([revoked, tokens.list(), (await AccessTokens.open(log)).list()]).toEqual([true, [], []])
  })

  it('one that could not be stored leaves the old secret, and the next can be', async () => {
    const log = openMemoryLog()
    const tokens = await AccessTokens.open(log)
    const { token, info } = await tokens.create(agent)
    await expect(tokens.rotate(info.id, {}, () => Promise.reject(new Error('no space')))).rejects.toThrow('no space')
    expect(tokens.verify(token)).toBeDefined()
    expect(await tokens.rotate(info.id, {})).toBeDefined()
    await log.close()
    await expect(tokens.rotate(info.id, {})).rejects.toThrow(StoreUnavailableError)
  })
})

describe('the last use', () => {
  it('is noted at once, stored when it is time, and found again after a restart', async () => {
    let now = 1_000
    const log = openMemoryLog()
    const append = vi.spyOn(log, 'append')
    const open = () => AccessTokens.open(log, { now: () => now })
    const tokens = await open()
    const { info } = await tokens.create(agent)
    const other = await tokens.create(agent)
    append.mockClear()
    now = 2_000
    for (let n = 0; n < 100; n++) tokens.noteUse(info.id)
    tokens.noteUse('preset')
    tokens.noteUse('constructor')
    expect(append).not.toHaveBeenCalled()
    expect(tokens.list()).toEqual([{ ...info, lastUsedAt: 2_000 }, other.info])
    expect((await open()).list()[0]?.lastUsedAt).toBeUndefined()
    await tokens.writeUses()
    await tokens.writeUses()
    expect(append).toHaveBeenCalledTimes(1)
    expect((await open()).list()).toEqual(tokens.list())
  })

  it('that could not be stored is stored with the next', async () => {
    const log = openMemoryLog()
    const tokens = await AccessTokens.open(log)
    const { info } = await tokens.create(agent)
    tokens.noteUse(info.id)
    vi.spyOn(log, 'append').mockRejectedValueOnce(new StoreUnavailableError('full'))
    await expect(tokens.writeUses()).rejects.toThrow('full')
    await tokens.writeUses()
    expect((await AccessTokens.open(log)).list()).toEqual(tokens.list())
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
    await ensureAdminToken(later, configIn(home))
    expect(readFileSync(path, 'utf8')).toBe(token)
    expect(later.list()).toHaveLength(1)
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

  it('is made anew where its file is gone, or holds one that is ended and there is no other admin', async () => {
    const home = temporaryDirectory()
    const path = join(home, 'admin-token')
    const tokens = await AccessTokens.open(openMemoryLog())
    const held = (): string => readFileSync(path, 'utf8').trim()
    await ensureAdminToken(tokens, configIn(home))
    const first = held()
    await ensureAdminToken(tokens, configIn(home))
    expect(held()).toBe(first)

    rmSync(path)
    await ensureAdminToken(tokens, configIn(home))
    expect(tokens.verify(held())?.role).toBe('admin')
    expect(tokens.verify(first)?.role).toBe('admin')

    // Whoever ends a token has another one, as long as there is one.
    await tokens.revoke(tokens.verify(held())?.tokenId ?? '')
    await ensureAdminToken(tokens, configIn(home))
    expect(tokens.verify(held())).toBeUndefined()
    await tokens.revoke(tokens.verify(first)?.tokenId ?? '')
    await ensureAdminToken(tokens, configIn(home))
    expect(tokens.verify(held())?.role).toBe('admin')
  })

  it('is not made when its file cannot be written', async () => {
    const home = join(temporaryDirectory(), 'file')
    writeFileSync(home, '')
    const tokens = await AccessTokens.open(openMemoryLog())
    await expect(ensureAdminToken(tokens, configIn(home))).rejects.toThrow()
    expect(tokens.list()).toEqual([])
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

  it('is rotated together with its file, and a rotation that a crash cut off is ended by the next start', async () => {
    const home = temporaryDirectory()
    const path = join(home, 'admin-token')
    const log = openMemoryLog()
    const tokens = await AccessTokens.open(log)
    await ensureAdminToken(tokens, configIn(home))
    const id = tokens.list()[0]?.id as string
    const onUnsettled = vi.fn()
    const other = await tokens.create(agent)
    const before = readFileSync(path, 'utf8')
    await rotateToken(tokens, other.info.id, {}, { home, onUnsettled })
    expect(readFileSync(path, 'utf8')).toBe(before)

    const { token } = (await rotateToken(tokens, id, {}, { home, onUnsettled })) as RotatedToken
    expect(readFileSync(path, 'utf8')).toBe(`${token}\n`)
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readdirSync(home)).toEqual(['admin-token'])
    expect(onUnsettled).not.toHaveBeenCalled()

    const both = await Promise.all([1, 2].map(() => rotateToken(tokens, id, {}, { home, onUnsettled })))
    expect(tokens.verify(readFileSync(path, 'utf8').trim())).toBeDefined()
    expect(readFileSync(path, 'utf8')).toBe(`${both[1]?.token}\n`)
    const valid = both[1]?.token

    // Dead before it was stored, and after.
    writeFileSync(`${path}.next`, `tw_${id}_neverstored\n`)
    await settleAdminToken(await AccessTokens.open(log), { home })
    expect([readdirSync(home), readFileSync(path, 'utf8')]).toEqual([['admin-token'], `${valid}\n`])
    const { token: last } = (await tokens.rotate(id, {})) as RotatedToken
    writeFileSync(`${path}.next`, `${last}\n`)
    await settleAdminToken(await AccessTokens.open(log), { home })
    expect([readdirSync(home), readFileSync(path, 'utf8')]).toEqual([['admin-token'], `${last}\n`])
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
