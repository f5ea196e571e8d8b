const defaultPorts: Readonly<Record<string, string>> = { 'http:': '80', 'https:': '443' }

/**
 * Whether the host of a URL is one of a list (`name`, `name:port`, `*.name`, `[::1]:8080`); an empty list has all. Without a port an entry stands for every port; `*.name` for
 * all names below `name`, not for itself.
 */
export function isHostAllowed(url: URL, entries: readonly string[]): boolean {
  if (entries.length === 0) return true
  const port = url.port === '' ? defaultPorts[url.protocol] : url.port
  const host = url.hostname.replace(/\.$/, '').toLowerCase()
  return entries.some((entry) => {
    const [, name = '', asked] = /^(.*?)(?::(\d{1,5}))?$/.exec(entry.toLowerCase()) ?? []
    if (asked !== undefined && asked !== port) return false
    return name.startsWith('*.') ? host.endsWith(name.slice(1)) : host === name
  })
}
