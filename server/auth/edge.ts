import type { IncomingMessage } from 'node:http'
import { RequestError } from '../errors.ts'
import type { AllowedAddresses } from './addresses.ts'
import type { Principal } from './principal.ts'
import type { Tickets } from './tickets.ts'
import type { AccessTokens } from './tokens.ts'

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
  if (countOf(request, 'host') !== 1 || !addresses.allowsHost(headers.host ?? '', port)) {
    throw new RequestError('HOST_NOT_ALLOWED')
  }
  const origin = headers.origin === undefined ? 'absent' : addresses.originKind(headers.origin, port)
  if (origin === undefined) throw new RequestError('ORIGIN_NOT_ALLOWED')
  // A page elsewhere may call only if its origin is listed.
  if (headers['sec-fetch-site'] === 'cross-site' && origin !== 'listed') throw new RequestError('ORIGIN_NOT_ALLOWED')
  if (hasTokenInQuery(url, tokens)) throw new RequestError('TOKEN_IN_URL')

  const principal = authenticate(request, tokens, tickets)
  if (!principal) throw new RequestError('UNAUTHENTICATED', undefined, { headers: { 'www-authenticate': 'Bearer' } })
  tokens.noteUse(principal.tokenId)
  return principal
}

function authenticate(request: IncomingMessage, tokens: AccessTokens, tickets: Tickets): Principal | undefined {
  const { headers } = request
  if (headers.authorization !== undefined) {
    const token = /^Bearer +([\x21-\x7e]+)$/i.exec(headers.authorization)?.[1]
    return token === undefined || countOf(request, 'authorization') !== 1 ? undefined : tokens.verify(token)
  }
  if (headers.upgrade?.toLowerCase() !== 'websocket') return undefined
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
    if (tokenNames.has(name.toLowerCase().replaceAll(/[^a-z]/g, '')) || tokens.verify(value)) return true
  }
  return false
}

function countOf({ rawHeaders }: IncomingMessage, name: string): number {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) if (rawHeaders[at]?.toLowerCase() === name) count++
  return count
}
