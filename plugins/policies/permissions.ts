import type { PreDecision } from '../../server/pipeline/decisions.ts'
import { definePlugin } from '../define-plugin.ts'
import type { Permission, Permissions } from './permissions-rules.ts'

/** Lets calls through, refuses them or has a person asked, by the rules of the configuration (docs/permissions.md). */
export const permissions = definePlugin(
  { name: 'permissions' },
  (tools, _services, { permissions }: { permissions: Permissions }) => {
    // Outermost, so that no other hook can answer before the rules do.
    tools.addHook(
      'preExecute',
      ({ name, arguments: args, agent }, next) => {
        const scopes = agent?.scope.chain.map(({ id }) => id) ?? []
        const own = permissions.decide({ name, arguments: args, scopes })
        if (own.kind === 'deny') return { kind: 'deny', reason: own.reason }
        return own.kind === 'allow' ? next() : next().then((inner) => stricter(own, inner))
      },
      { prepend: true }
    )
  }
)

/** An ask over what the inner hooks say: their deny stands, and so does what is no decision, which fails the call. */
function stricter({ reason }: Permission, inner: PreDecision | undefined): PreDecision {
  if (inner?.kind === 'allow') return { kind: 'ask', reason }
  if (inner?.kind !== 'ask') return inner as PreDecision
  return { kind: 'ask', reason: inner.reason ? `${reason}; ${inner.reason}` : reason }
}
