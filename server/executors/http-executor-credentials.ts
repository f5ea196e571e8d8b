import { readFile } from 'node:fs/promises'
import { RequestError } from '../errors.ts'
import { HttpToolError } from './http-executor-errors.ts'

/** One entry of `httpTools.credentials`: what proves to servers who calls them. The secret itself is the text of a file. */
export type CredentialSettings = {
  /** The servers that may ever get it, as `https://api.example.com`. */
  readonly origins: readonly string[]
  /** Scopes whose providers may have tools use it, those below included; an admin may anywhere. */
  readonly scopes?: readonly string[]
  readonly secretFile: string
} & (
  | { readonly type: 'bearer' }
  | { readonly type: 'basic'; readonly user: string }
  | { readonly type: 'apiKey'; readonly in: 'header' | 'query'; readonly name: string }
)

/** What a request gets of credentials, and the texts that must not be seen in anything that comes back. */
export interface Proof {
  readonly headers: Readonly<Record<string, string>>
  /** Pairs of the query, percent-encoded: `key=abc`. */
  readonly query: readonly string[]
  readonly secrets: readonly string[]
}

/**
 * Credentials by name. Tools, documents and storage hold names alone; the secret is read from its file for each call, so one that was
 * replaced is in force at once.
 */
export class HttpCredentials {
  readonly #entries: ReadonlyMap<string, CredentialSettings>

  constructor(entries: Readonly<Record<string, CredentialSettings>>) {
    this.#entries = new Map(Object.entries(entries))
  }

  /** Rejects naming the first entry whose secret cannot be had: at start, rather than with the first call. */
  async check(): Promise<void> {
    for (const [name, { secretFile }] of this.#entries) {
      await readSecret(secretFile).catch((error: unknown) => {
        throw new Error(`httpTools.credentials.${name}: ${(error as Error).message}`, { cause: error })
      })
    }
  }

  /**
   * Throws `INVALID_DEFINITION` when a tool of a scope may not use it. `chain`: the scope and those above it. What is not there and what
   * is another's look alike.
   */
  assertUsable(name: string, { chain, isAdmin }: { chain: readonly string[]; isAdmin: boolean }): void {
    const entry = this.#entries.get(name)
    if (entry !== undefined && (isAdmin || entry.scopes?.some((scope) => chain.includes(scope)) === true)) return
    throw new RequestError('INVALID_DEFINITION', `There are no credentials ${JSON.stringify(name)} for this scope.`)
  }

  /** Whether a server may get it. */
  isFor(name: string, origin: string): boolean {
    return (
      this.#entries.get(name)?.origins.some((each) => URL.canParse(each) && new URL(each).origin === origin) === true
    )
  }

  /** Rejects with HTTP_TOOL_CREDENTIALS where the configuration has changed since the tool was registered. */
  async proofFor(name: string, origin: string): Promise<Proof> {
    const entry = this.#entries.get(name)
    const refuse = (reason: string): HttpToolError =>
      new HttpToolError('HTTP_TOOL_CREDENTIALS', `credentials ${JSON.stringify(name)} ${reason}`, 'none')
    if (entry === undefined || !this.isFor(name, origin)) throw refuse('are not configured for its server')
    let secret: string
    try {
      secret = await readSecret(entry.secretFile)
    } catch {
      throw refuse('cannot be read')
    }
    switch (entry.type) {
      case 'bearer':
        return { headers: { authorization: `Bearer ${secret}` }, query: [], secrets: [secret] }
      case 'basic': {
        const pair = Buffer.from(`${entry.user}:${secret}`).toString('base64')
        return { headers: { authorization: `Basic ${pair}` }, query: [], secrets: [secret, pair] }
      }
      case 'apiKey': {
        if (entry.in === 'header')
          return { headers: { [entry.name.toLowerCase()]: secret }, query: [], secrets: [secret] }
        const encoded = encodeURIComponent(secret)
        return { headers: {}, query: [`${encodeURIComponent(entry.name)}=${encoded}`], secrets: [secret, encoded] }
      }
    }
  }
}

async function readSecret(path: string): Promise<string> {
  const secret = (await readFile(path, 'utf8')).trim()
  // It goes into a header, as one line.
  if (!/^[\x20-\x7e]+$/.test(secret)) throw new Error(`${path} does not hold one line of printable ASCII`)
  return secret
}
