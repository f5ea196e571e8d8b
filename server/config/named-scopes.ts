import type { Config } from './schema.ts'

/**
 * The ids of scopes to which the configuration gives something: rules, a sandbox mode, limits, credentials. It is meant for the scopes of
 * those who configure, so nobody else may make one of such an id.
 */
export function namedScopes({ permissions, sandbox, limits, httpTools }: ScopeSettings): ReadonlySet<string> {
  const byId = [permissions.scopes, sandbox.scopes, limits.scopes].flatMap((scopes) => Object.keys(scopes))
  return new Set([...byId, ...Object.values(httpTools.credentials).flatMap(({ scopes = [] }) => scopes)])
}

export type ScopeSettings = Pick<Config, 'permissions' | 'sandbox' | 'limits' | 'httpTools'>
