import type { IncomingMessage } from 'node:http'
import { RequestError } from '../errors.ts'
import type { AllowedAddresses } from './addresses.ts'
import type { Principal } from './principal.ts'
import type { Tickets } from './tickets.ts'
import type { AccessTokens } from './tokens.ts'
import { isUpgrade } from './upgrade.ts'

export interface Edge {
  readonly addresses: AllowedAddresses
  readonly tokens: AccessTokens
  readonly tickets: Tickets
}

/** Names under which people put tokens into URLs, written without case and separators. */
const tokenNames = new Set([
  'token',
  'accesstoken',
  'admintoken',
  'authtoken',
  'idtoken',
  'bearer',
  'bearertoken',
  'auth',
  'authorization',
  'apikey',
  'jwt',
  'ticket'
])

/**
 * The one check of every request, WebSocket upgrades included, before any route (reliability.md §1.1). Its order is that of the
 * cheapest lie: Host, Origin, Sec-Fetch-Site, a token in the URL, the token. Returns who is calling or throws a `RequestError`.
 */
export function checkEdge(request: IncomingMessage, { addresses, tokens, tickets }: Edge): Principal {
  const { headers, url = '' } = request
  const port = request.socket.localPort ?? 0

  // Node keeps the first of two Host headers, another hop may have looked at the second.
  const names = [headers.host ?? '', ...authorityIn(url)]
  if (countOf(request, 'host') !== 1 || !names.every((name) => addresses.allowsHost(name, port))) {
    throw new RequestError('HOST_NOT_ALLOWED')
  }
  const origin = headers.origin === undefined ? 'absent' : addresses.originKind(headers.origin, port)
  if (origin === undefined) throw new RequestError('ORIGIN_NOT_ALLOWED')
  // A page elsewhere may call only if its origin is listed.
  if (headers['sec-fetch-site'] === 'cross-site' && origin !== 'listed') throw new RequestError('ORIGIN_NOT_ALLOWED')
  if (hasTokenInQuery(url, tokens)) throw new RequestError('TOKEN_IN_URL')

  const principal = authenticate(request, tokens, tickets)
  if (!principal) throw unauthenticated()
  tokens.noteUse(principal.tokenId)
  return principal
}

export const unauthenticated = (): RequestError =>
  new RequestError('UNAUTHENTICATED', undefined, { headers: { 'www-authenticate': 'Bearer' } })

function authenticate(request: IncomingMessage, tokens: AccessTokens, tickets: Tickets): Principal | undefined {
  const { headers } = request
  if (headers.authorization !== undefined) {
    const token = /^Bearer +([\x21-\x7e]+)$/i.exec(headers.authorization)?.[1]
    return token === undefined || countOf(request, 'authorization') !== 1 ? undefined : tokens.verify(token)
  }
  // The header alone makes no upgrade: then the ticket would be good for any request, and for making a token.
  if (!isUpgrade(request) || headers.upgrade?.toLowerCase() !== 'websocket') return undefined
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((protocol) => protocol.trim())
  const [ticket, ...more] = offered.filter((protocol) => protocol.startsWith('ticket.'))
  if (ticket === undefined || more.length > 0) return undefined
  const principal = tickets.redeem(ticket.slice('ticket.'.length))
  return principal && tokens.isLive(principal) ? principal : undefined
}

function hasTokenInQuery(url: string, tokens: AccessTokens): boolean {
  const start = url.indexOf('?')
  if (start === -1) return false
  for (const [name, value] of new URLSearchParams(url.slice(start + 1))) {
    if (tokenNames.has(name.toLowerCase().replaceAll(/[^a-z]/g, ''))) return true
    if ([name, value].some((text) => tokens.verify(text.trim().replace(/^bearer +/i, '')))) return true
  }
  return false
}

/** A target in the absolute form names the server itself, and counts before `Host` (RFC 9112 §3.2.2). */
const authorityIn = (url: string): string[] =>
  url.startsWith('/') ? [] : [...(/^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(url)?.slice(1) ?? [])]

function countOf({ rawHeaders }: IncomingMessage, name: string): number {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) if (rawHeaders[at]?.toLowerCase() === name) count++
  return count
}
