/**
 * The names by which this server may be spoken to (reliability.md §1.1). A page of a foreign name that was rebound to our address
 * still sends the foreign name, and one that calls across origins sends its own origin.
 */
export interface AllowedAddresses {
  /** Whether a `Host` header names this server; `port` is the one it listens on. */
  allowsHost(header: string, port: number): boolean
  /** `own` for the server's own origins, `listed` for the configured ones, undefined for any other. */
  originKind(origin: string, port: number): 'own' | 'listed' | undefined
}

/** `name` and `port` of a `Host` header, in one spelling; undefined for what is none. Without a port it is HTTP's, 80. */
function parseHost(header: string): { name: string; port: number; hasPort: boolean } | undefined {
  const match = /^(?:(\[[\da-f:.]+\])|([\w.-]*[\w-])\.?)(?::(\d{1,5}))?$/i.exec(header)
  if (!match) return undefined
  const [, literal, name, port] = match
  const url = `http://${literal ?? name}/`
  if (!URL.canParse(url)) return undefined
  // Brings IPv6 literals and odd spellings of IPv4 into one form.
  return { name: new URL(url).hostname, port: port === undefined ? 80 : Number(port), hasPort: port !== undefined }
}

/**
 * Accepted are the loopback names and `host` with the listening port, and the `listedHosts`: `name:port` exactly, `name:*` with
 * any port, and a bare `name` with HTTP's ports, which clients do not spell out, or ours.
 */
export function allowAddresses(options: {
  host: string
  listedHosts: readonly string[]
  listedOrigins: readonly string[]
}): AllowedAddresses {
  const bracketed = options.host.includes(':') ? `[${options.host}]` : options.host
  const own = new Set(['localhost', '127.0.0.1', '[::1]', bracketed].map((host) => parseHost(host)?.name))
  const listed = options.listedHosts.map((entry) => ({
    ...parseHost(entry.replace(/:\*$/, '')),
    isAnyPort: entry.endsWith(':*')
  }))
  const listedOrigins = new Set(options.listedOrigins)
  const isAllowed = (header: string, port: number): boolean => {
    const host = parseHost(header)
    if (!host) return false
    if (own.has(host.name) && host.port === port) return true
    return listed.some(
      (entry) =>
        entry.name === host.name &&
        (entry.isAnyPort || (entry.hasPort ? entry.port === host.port : [80, 443, port].includes(host.port)))
    )
  }
  // Nearly every request names the server as the one before did.
  let last: { header: string; port: number } | undefined
  return {
    allowsHost(header, port) {
      if (header === last?.header && port === last.port) return true
      if (!isAllowed(header, port)) return false
      last = { header, port }
      return true
    },
    originKind(origin, port) {
      if (listedOrigins.has(origin)) return 'listed'
      if (!origin.startsWith('http://')) return undefined
      const host = parseHost(origin.slice('http://'.length))
      return host && own.has(host.name) && host.port === port ? 'own' : undefined
    }
  }
}
