import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { configFromOptions, configOptions, type Options, type OptionValues, UsageError } from '../command-line.ts'
import { ConfigError } from '../config/load.ts'

/** The options by which a command finds the server and its token (api.md §9). */
export const connectionOptions = {
  url: {
    type: 'string',
    value: 'URL',
    description: 'The server (else TOOLWRIGHT_URL, else host and port as configured).'
  },
  'token-file': {
    type: 'string',
    value: 'FILE',
    description:
      'File that holds the token (else TOOLWRIGHT_TOKEN_FILE, TOOLWRIGHT_TOKEN, else admin-token in the home).'
  },
  config: configOptions.config,
  home: configOptions.home
} as const satisfies Options

export const jsonOption = {
  json: { type: 'boolean', description: 'For programs: JSON, one object a line.' }
} as const satisfies Options

export const scopeOption = {
  scope: { type: 'string', value: 'SCOPE', description: 'The scope; that of the token if absent.' }
} as const satisfies Options

export type ConnectionValues = OptionValues<typeof connectionOptions>

/** There is no usable token; the process exits with 77 (EX_NOPERM). */
export class NoTokenError extends Error {
  override readonly name = 'NoTokenError'
  readonly exitCode = 77
}

/** Where the server is, without a slash at the end, and the token for it. Throws `UsageError`, `ConfigError` or `NoTokenError`. */
export function findServer(values: ConnectionValues, env: NodeJS.ProcessEnv): { url: string; token: string } {
  // Which of them counts is decided here, in another order than a server takes them.
  const { TOOLWRIGHT_TOKEN, TOOLWRIGHT_TOKEN_FILE, ...others } = env
  const { url: _url, 'token-file': _file, ...configValues } = values
  const configured = () => configFromOptions(configValues, others).config
  const givenUrl = values.url ?? (env.TOOLWRIGHT_URL || undefined)
  const url = givenUrl === undefined ? urlOf(configured()) : checkedUrl(givenUrl)
  const file = values['token-file'] ?? (TOOLWRIGHT_TOKEN_FILE || undefined)
  if (file !== undefined) return { url, token: readToken(file) }
  if (TOOLWRIGHT_TOKEN) return { url, token: checkedToken(TOOLWRIGHT_TOKEN, 'TOOLWRIGHT_TOKEN') }
  const { auth, home } = configured()
  if (auth.tokenFile !== undefined) return { url, token: readToken(auth.tokenFile) }
  if (auth.token !== undefined) return { url, token: checkedToken(auth.token.reveal(), 'auth.token') }
  return { url, token: readToken(join(home, 'admin-token')) }
}

function urlOf({ host, port }: { host: string; port: number }): string {
  if (port === 0) throw new ConfigError(['port 0 does not say where the server is; give --url or TOOLWRIGHT_URL'])
  // An address that stands for all of them is none to connect to.
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`
}

function checkedUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new UsageError(`${JSON.stringify(text)} is no URL such as http://127.0.0.1:7410`)
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new UsageError('the URL of a server has neither a user, nor a password, nor a query')
  }
  return url.href.replace(/\/+$/, '')
}

function readToken(path: string): string {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw new NoTokenError(
      `no token: ${(error as Error).message}; name its file with --token-file or TOOLWRIGHT_TOKEN_FILE, or the server's home with --home`
    )
  }
  return checkedToken(text.trim(), path)
}

function checkedToken(text: string, place: string): string {
  // It travels in a header, as one word. What else is there is not shown: it may be a secret of another kind.
  if (!/^[\x21-\x7e]{1,4096}$/.test(text)) throw new NoTokenError(`${place} does not hold a token`)
  return text
}
