export const roles = ['agent', 'observer', 'operator', 'provider', 'admin'] as const

export type Role = (typeof roles)[number]

/** Who authenticated (api.md §1). It reaches `scope` and its descendants; what lies outside does not exist for it. */
export interface Principal {
  readonly tokenId: string
  readonly label: string
  readonly role: Role
  readonly scope: string
  /** Which secret of its token it came with: absent for the first since the server started, counted up by each rotation. */
  readonly secret?: number
}

/**
 * What each role may do, in its own scope and below it (api.md §1). This table is the only place that knows; routes ask
 * `mayDo`. What a principal sees but may not do is 403, what it may not see is 404.
 */
const grants = {
  'catalogue:read': ['agent', 'observer', 'operator', 'provider', 'admin'],
  'events:read': ['agent', 'observer', 'operator', 'admin'],
  'approvals:read': ['observer', 'operator', 'admin'],
  'calls:invoke': ['agent', 'admin'],
  'calls:cancel': ['agent', 'operator', 'admin'],
  'sessions:write': ['agent', 'admin'],
  'sessions:delete': ['admin'],
  'scopes:create-below': ['agent', 'admin'],
  'scopes:write': ['admin'],
  'tools:register': ['provider', 'admin'],
  'tools:accept': ['operator', 'admin'],
  'approvals:decide': ['operator', 'admin'],
  'permissions:set': ['operator', 'admin'],
  'terminals:operate': ['operator', 'admin'],
  'jobs:kill': ['operator', 'admin'],
  'metrics:read': ['observer', 'operator', 'admin'],
  'tokens:manage': ['admin'],
  'server:administer': ['admin']
} as const satisfies Record<string, readonly Role[]>

export type Action = keyof typeof grants

export function mayDo(principal: Principal, action: Action): boolean {
  return (grants[action] as readonly Role[]).includes(principal.role)
}

/** What access needs to know of the scope tree: whether `scope` exists and is `ancestor` or lies below it. */
export interface ScopeReach {
  isWithin(scope: string, ancestor: string): boolean
}
