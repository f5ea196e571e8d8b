import { describe, expect, it } from 'vitest'
import { type Action, mayDo, type Role, roles } from '../../server/auth/principal.ts'

/** api.md §1, read by hand. */
const expected: Record<Role, Action[]> = {
  agent: ['catalogue:read', 'events:read', 'calls:invoke', 'calls:cancel', 'sessions:write', 'scopes:create-below'],
  observer: ['catalogue:read', 'events:read', 'approvals:read'],
  operator: [
    'catalogue:read',
    'events:read',
    'approvals:read',
    'calls:cancel',
    'tools:accept',
    'approvals:decide',
    'terminals:operate',
    'jobs:kill'
  ],
  provider: ['catalogue:read', 'tools:register'],
  admin: [
    'catalogue:read',
    'events:read',
    'approvals:read',
    'calls:invoke',
    'calls:cancel',
    'sessions:write',
    'sessions:delete',
    'scopes:create-below',
    'scopes:write',
    'tools:register',
    'tools:accept',
    'approvals:decide',
    'terminals:operate',
    'jobs:kill',
    'tokens:manage',
    'server:administer'
  ]
}

describe('what each role may do', () => {
  it.each(roles)('%s', (role) => {
    const principal = { tokenId: 't', label: '', role, scope: 'global' }
    expect(expected.admin.filter((action) => mayDo(principal, action)).sort()).toEqual([...expected[role]].sort())
  })
})
