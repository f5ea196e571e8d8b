import type { SandboxPolicies } from '../../server/backends/sandbox/sandbox.ts'

/**
 * The two parameters with which a call asks to be let further than its session's mode (backends.md §11.3), for tools that confine;
 * none where nothing can be asked for. Whoever offers them hands the arguments to `policyFor`.
 */
export function escalationParameters(policies: SandboxPolicies | undefined) {
  const modes = policies?.escalations ?? []
  if (modes.length === 0) return {}
  return {
    sandbox_permissions: {
      type: 'string',
      enum: [...modes],
      description: 'Only when the sandbox has refused what is needed: the mode for this one call. A person decides.'
    },
    justification: { type: 'string', description: 'With sandbox_permissions: why, for the person who decides.' }
  } as const
}

/** What a refusal of the sandbox adds where more can be asked for (backends.md §3.2, §6.10). */
export const escalationHint =
  'If it is meant, call again with sandbox_permissions and a justification; a person is asked then.'

/** Undeclared arguments pass validation, so what is not offered is refused in the body (backends.md §1). */
export function assertNoEscalation(args: object, policies: SandboxPolicies | undefined): void {
  if ((policies?.escalations ?? []).length > 0) return
  for (const name of ['sandbox_permissions', 'justification']) {
    if (Object.hasOwn(args, name)) throw new Error(`${name} means nothing here: more permissions are not given`)
  }
}
