import { mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from '../config/schema.ts'
import type { AccessTokens, Rotation, TokenInfo } from './tokens.ts'

/** Where the admin's token is to be had, as the start-up lines say it: a shell word that expands to it, and a phrase. */
export interface AdminTokenPlace {
  readonly shellWord: string
  readonly text: string
}

/** The preset token is missing or unusable; the process exits with 78 (EX_CONFIG). */
export class PresetTokenError extends Error {
  override readonly name = 'PresetTokenError'
  readonly exitCode = 78
}

/** The text of the preset token, from `auth.tokenFile` or `auth.token`; throws a `PresetTokenError` for what cannot be one. */
export async function readPresetToken({ auth }: Config): Promise<string | undefined> {
  let token = auth.token?.reveal()
  if (auth.tokenFile !== undefined) {
    try {
      token = (await readFile(auth.tokenFile, 'utf8')).trim()
    } catch (error) {
      throw new PresetTokenError(`The token file cannot be read: ${(error as Error).message}`)
    }
  }
  // It travels in a header, as one word.
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
    throw new PresetTokenError('The preset token is not one word of printable ASCII.')
  }
  return token
}

/** Where the admin's token is to be had under this configuration. */
export function adminTokenPlace({ auth, home }: Config): AdminTokenPlace {
  if (auth.tokenFile === undefined && auth.token !== undefined)
    return { shellWord: '$TOOLWRIGHT_TOKEN', text: 'as configured' }
  const path = auth.tokenFile ?? join(home, 'admin-token')
  return { shellWord: `$(cat ${quote(path)})`, text: `in ${path}` }
}

/**
 * Makes the admin token, unless one is preset, and writes it to `admin-token` in the home directory, mode 0600 (api.md §9): at the first
 * start, and where the file is not there, as after a restore, since nobody could talk to the server then. The file is there before
 * the token is stored: in the other order a crash in between would leave the same.
 */
export async function ensureAdminToken(tokens: AccessTokens, { home }: Config): Promise<void> {
  const path = join(home, 'admin-token')
  if (tokens.hasPreset) return
  const held = await readFile(path, 'utf8').catch(() => undefined)
  if (held !== undefined && (tokens.verify(held.trim()) !== undefined || tokens.hasGlobalAdmin)) return
  await tokens.create({ label: 'admin of this directory', role: 'admin', scope: 'global' }, (token) =>
    writePrivately(home, path, token)
  )
}

/**
 * Rotates a token, and where the `admin-token` file holds this one, the file too. The new one lies beside the file before it is stored
 * and takes its place after: a crash in between leaves both, and `settleAdminToken` keeps the one that is valid. `onUnsettled` hears
 * of a file that could not be replaced; the next start does that. Undefined when there is no such token.
 */
export async function rotateToken(
  tokens: AccessTokens,
  id: string,
  rotation: Rotation,
  { home, onUnsettled }: { home: string; onUnsettled: (error: unknown) => void }
): Promise<{ token: string; info: TokenInfo } | undefined> {
  const path = join(home, 'admin-token')
  const held = await readFile(path, 'utf8').catch(() => '')
  if (!held.startsWith(`tw_${id}_`)) return tokens.rotate(id, rotation)
  return tokens.rotate(id, rotation, async (token) => {
    await writeWholly(`${path}.next`, token)
    return () => settleAdminToken(tokens, { home }).catch(onUnsettled)
  })
}

/** Ends a rotation of the `admin-token` file that did not come to its end. */
export async function settleAdminToken(tokens: AccessTokens, { home }: Pick<Config, 'home'>): Promise<void> {
  const path = join(home, 'admin-token')
  const next = await readFile(`${path}.next`, 'utf8').catch(() => undefined)
  if (next === undefined) return
  if (tokens.verify(next.trim()) === undefined) await rm(`${path}.next`, { force: true })
  else await rename(`${path}.next`, path)
}

async function writePrivately(directory: string, path: string, token: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const temporary = `${path}.${process.pid}`
  await writeWholly(temporary, token)
  await rename(temporary, path)
}

async function writeWholly(path: string, token: string): Promise<void> {
  const file = await open(path, 'w', 0o600)
  try {
    // The mode of `open` does not bind a file that is there already.
    await file.chmod(0o600)
    await file.writeFile(`${token}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** A path as one word of a shell's command line, also inside double quotes of `$(…)`. */
function quote(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`
}
