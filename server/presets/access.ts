import { constants } from 'node:fs'
import { open, readlink } from 'node:fs/promises'
import type { ApprovalAsk, ApprovalOutcome } from '../pipeline/decisions.ts'
import type { RunContext } from '../pipeline/execution.ts'
import {
  type Confined,
  type ConfineOptions,
  EscalationError,
  type EscalationRequest,
  isWider,
  type Sandbox,
  type SandboxedCall,
  SandboxError,
  type SandboxMode,
  sandboxModes,
  type SandboxPolicies,
  type SandboxPolicy
} from '../backends/sandbox/sandbox.ts'
import { mayWrite } from '../backends/sandbox/write-fence.ts'
import { Session } from '../sessions/session.ts'
import type { Presets } from './presets.ts'
import type { SandboxModes } from './sandbox-modes.ts'

export interface SandboxAccessOptions {
  /** Absent: nothing is confined. */
  sandbox: Sandbox | undefined
  modes: SandboxModes
  presets: Presets
  /** Where an escalation is asked about (core.md §25). */
  approvals: { requestInBody(ask: ApprovalAsk & { exec: RunContext }): Promise<ApprovalOutcome> }
  /** The working directory of an agent. */
  cwdOf: (agent: object | undefined) => Promise<string> | string
  /** Canonical. */
  dataDirectory: string
}

/** Each call's sandbox policy, with the escalation of backends.md §11.3. */
export class SandboxAccess implements SandboxPolicies {
  readonly #options: SandboxAccessOptions

  constructor(options: SandboxAccessOptions) {
    this.#options = options
  }

  get isConfining(): boolean {
    return this.#options.sandbox !== undefined
  }

  get escalations(): readonly SandboxMode[] {
    const { sandbox, modes } = this.#options
    return sandbox === undefined ? [] : sandboxModes.slice(1).filter((mode) => !isWider(mode, modes.widest))
  }

  async policyFor(
    call: SandboxedCall,
    request: EscalationRequest,
    purpose: 'command' | 'files'
  ): Promise<SandboxPolicy> {
    const asked = this.#readRequest(request)
    const own = await this.#policyOf(call.agent)
    if (asked !== undefined) await this.#ask(call, own.mode, asked)
    const policy = asked === undefined ? own : { ...own, mode: asked.mode }
    if (purpose === 'command') await this.#options.sandbox?.assertUsable(policy)
    return policy
  }

  async mayWrite(path: string, agent: object | undefined, granted?: SandboxMode): Promise<true | SandboxMode> {
    const { mode, ...place } = await this.#policyOf(agent)
    const policy = { ...place, mode: granted ?? mode }
    return mayWrite(path, policy, this.#options.dataDirectory) || policy.mode
  }

  wrap(argv: readonly [string, ...string[]], policy: SandboxPolicy, options: ConfineOptions): Confined {
    const { sandbox } = this.#options
    if (sandbox === undefined || policy.mode === 'danger-full-access') return { argv, env: {} }
    return sandbox.confine(argv, policy, options)
  }

  /** What holds without anybody being asked. */
  async #policyOf(agent: object | undefined): Promise<SandboxPolicy> {
    const { modes, presets, cwdOf } = this.#options
    const session = agent instanceof Session ? agent : undefined
    const cwd = await cwdOf(agent)
    const named = session === undefined ? {} : { sessionId: session.id }
    if (!this.isConfining) return { mode: 'danger-full-access', workspaceRoot: cwd, ...named }
    const place = await placeOf(cwd, session)
    if (session !== undefined) await presets.complete(session)
    return { mode: session === undefined ? modes.fallback : modes.of(session), ...place, ...named }
  }

  #readRequest({
    sandbox_permissions: mode,
    justification
  }: EscalationRequest): { mode: SandboxMode; justification: string } | undefined {
    if (mode === undefined && justification === undefined) return undefined
    const invalid = (message: string) => new EscalationError('ESCALATION_INVALID', message)
    if (!this.isConfining) {
      throw invalid('sandbox_permissions and justification mean nothing here: nothing is confined')
    }
    if (mode === undefined || justification === undefined) {
      throw invalid('sandbox_permissions and justification go together: one of them is missing')
    }
    if (typeof justification !== 'string' || justification.trim() === '') throw invalid('justification is blank')
    const offered = this.escalations.find((each) => each === mode)
    if (offered === undefined) throw invalid(`sandbox_permissions is one of ${this.escalations.join(', ')}`)
    return { mode: offered, justification }
  }

  /** Asks the people; returns when they allow it this once. */
  async #ask(
    call: SandboxedCall,
    own: SandboxMode,
    { mode, justification }: { mode: SandboxMode; justification: string }
  ) {
    if (!isWider(mode, own)) {
      throw new EscalationError('ESCALATION_INVALID', `${mode} is not more than what holds already: ${own}`)
    }
    if (!(call.agent instanceof Session)) {
      throw new EscalationError('ESCALATION_UNAVAILABLE', 'there is nobody to ask: the call belongs to no session')
    }
    const { outcome } = await this.#options.approvals.requestInBody({
      agent: call.agent,
      toolName: call.name,
      callId: call.callId,
      reason: `escalate to ${mode}: ${justification}`,
      signal: call.signal,
      exec: call as RunContext
    })
    if (outcome === 'allowed-once') return
    const [code, message] = refusals[outcome]
    throw new EscalationError(code, message)
  }
}

/** A directory that is another one than when the session was made was put there since, maybe by what is to be confined. */
async function placeOf(
  cwd: string,
  session: Session | undefined
): Promise<{ workspaceRoot: string; workspaceIdentity: string }> {
  const directory = await open(cwd, constants.O_RDONLY | constants.O_DIRECTORY).catch((error: unknown) => {
    throw new SandboxError(`the workspace ${cwd} is not there`, { cause: error })
  })
  try {
    // Of the open one, whatever has that name by now.
    const workspaceRoot = await readlink(`/proc/self/fd/${directory.fd}`)
    if (session?.cwd !== undefined && workspaceRoot !== session.cwd) {
      throw new SandboxError(`the workspace ${cwd} leads somewhere else now`)
    }
    const { dev, ino } = await directory.stat({ bigint: true })
    return { workspaceRoot, workspaceIdentity: `${dev}:${ino}` }
  } finally {
    await directory.close()
  }
}

const refusals = {
  rejected: ['ESCALATION_REJECTED', 'more permissions were refused; nothing was run'],
  cancelled: ['ESCALATION_CANCELLED', 'the question for more permissions was withdrawn; nothing was run'],
  unavailable: ['ESCALATION_UNAVAILABLE', 'nobody could be asked for more permissions; nothing was run']
} as const
