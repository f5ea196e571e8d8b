/** Which methods each path has, so that a wrong one can be told from a wrong path; the router itself does not tell. */
export class RouteMethods {
  readonly #routes = new Map<string, { pattern: RegExp; methods: Set<string> }>()

  /** `url` as a route states it, as in `/calls/:session/:callId`. */
  add(url: string, method: string | string[]): void {
    let route = this.#routes.get(url)
    if (!route) this.#routes.set(url, (route = { pattern: toPattern(url), methods: new Set() }))
    for (const name of [method].flat()) route.methods.add(name)
  }

  /** The methods of the routes that a request's URL matches, sorted. */
  of(url: string): string[] {
    const path = url.replace(/[?#].*$/s, '')
    const methods = new Set<string>()
    for (const route of this.#routes.values()) {
      if (route.pattern.test(path)) for (const method of route.methods) methods.add(method)
    }
    return [...methods].sort()
  }
}

function toPattern(url: string): RegExp {
  const source = url
    .replaceAll(/[.+^${}()|[\]\\]/g, String.raw`\$&`)
    .replaceAll(/:[A-Za-z]\w*/g, '[^/]+')
    .replaceAll('*', '.*')
  return new RegExp(`^${source}$`)
}
