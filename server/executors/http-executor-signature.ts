import { createHmac } from 'node:crypto'

/** The header that lets the server of a tool know that a request is ours (api.md §3). */
export const signatureHeader = 'x-toolwright-signature'

/**
 * `t=<epoch ms>,v1=<hex>`: the HMAC-SHA256 of `<epoch ms>.<body>` under the secret's UTF-8 bytes. The time is part of what is signed, so
 * that a request that was overheard cannot be sent again for ever.
 */
export function signatureOf(secret: string, time: number, body: Buffer): string {
  return `t=${time},v1=${createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex')}`
}

/**
 * The secret that calls of a scope's tools to one server are signed with. It is made from the master secret, so none is stored; and from
 * scope and server, so that who may register tools in one scope cannot forge the calls of another.
 */
export function signingSecret(master: string, scope: string, origin: string): string {
  return createHmac('sha256', master).update(`http-tool\n${scope}\n${origin}`).digest('hex')
}
