import { CodedError } from '../../errors.ts'

/** What a command or file tool may write, the narrowest first (backends.md §11.1). Reading and the network are not its business. */
export const sandboxModes = ['read-only', 'workspace-write', 'danger-full-access'] as const

export type SandboxMode = (typeof sandboxModes)[number]

/** Whether `mode` allows more than `other`. */
export const isWider = (mode: SandboxMode, other: SandboxMode): boolean =>
  sandboxModes.indexOf(mode) > sandboxModes.indexOf(other)

/** What holds for one call. `workspaceRoot` is canonical. */
export interface SandboxPolicy {
  readonly mode: SandboxMode
  readonly workspaceRoot: string
  /** Device and inode of the directory that was judged, as `2049:131`: what is mounted later, by its name, is to be the same. */
  readonly workspaceIdentity?: string
  readonly sessionId?: string
}

/** What a command line becomes when it is confined. */
export interface Confined {
  readonly argv: readonly [string, ...string[]]
  /** Put over the server's environment: all that the command must not see is `undefined`. */
  readonly env: Readonly<Record<string, string | undefined>>
}

export interface ConfineOptions {
  /** Absolute; where the command starts. */
  readonly workdir: string
  /** It gets a terminal of its own: it stays in the session of that, else Ctrl-C would not reach it (reliability.md §3.5). */
  readonly isTerminal?: boolean
  /** It only reads, and finds the machine's temporary directory where others have a private one. */
  readonly readsTmp?: boolean
}

/** How a command of a sandbox ended, as its text and code tell. */
export interface SandboxedEnd {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}

/** `runner-failure`: the command may not have run at all. `denied`: the sandbox refused it a file. */
export type EndKind = 'runner-failure' | 'denied' | 'ordinary'

/**
 * What is kept from a command or program that is confined: to change files (`writes`: save where its mode lets it) or to see the server's
 * data (`state`), its environment, or other processes; the server's `user`, use beyond the kernel's `limits`, the network.
 */
export type Confinement = 'writes' | 'state' | 'environment' | 'processes' | 'user' | 'limits' | 'network'

/** A backend that confines processes (backends.md §11.2). One exists only if it was seen to work. */
export interface Sandbox {
  /** Its mechanism, as `bwrap`. */
  readonly name: string
  readonly enforcement: 'full' | 'partial'
  readonly confines: readonly Confinement[]
  /**
   * Rejects with SandboxError when the backend cannot give this workspace to commands, with SpawnError when it could not find out; what was
   * found usable is not asked again.
   */
  assertUsable(policy: SandboxPolicy): Promise<void>
  /** The wrapped command line. Never to be called for `danger-full-access`: throws then. */
  confine(argv: readonly [string, ...string[]], policy: SandboxPolicy, options: ConfineOptions): Confined
  /** What the end looks like. A `runner-failure` is to be confirmed by `isBroken`, for a command can say the same words. */
  classify(end: SandboxedEnd): EndKind
  /** Runs `true` under the policy: whether it is the sandbox that fails. Rejects with SpawnError when it could not find out. */
  isBroken(policy: SandboxPolicy): Promise<boolean>
}

/** The sandbox cannot be used: `SANDBOX_UNAVAILABLE`. Nothing ran unconfined instead. */
export class SandboxError extends CodedError {
  constructor(message: string, options?: ErrorOptions) {
    super('SANDBOX_UNAVAILABLE', message, options)
  }
}

/** Arguments of a tool that asks to be let further than its session's mode (backends.md §11.3). */
export interface EscalationRequest {
  sandbox_permissions?: unknown
  justification?: unknown
}

/** Of a call's execution: what deciding about it needs. */
export interface SandboxedCall {
  readonly callId: string
  readonly name: string
  readonly agent?: object
  readonly signal: AbortSignal
}

/** What tools ask before they run a command or change a file (backends.md §11). */
export interface SandboxPolicies {
  /** False: nothing is confined and nothing pretends to be; every policy is `danger-full-access`. */
  readonly isConfining: boolean
  /** The modes that a call can ask for, which tools offer under `sandbox_permissions`; empty when nothing can be asked for. */
  readonly escalations: readonly SandboxMode[]
  /**
   * The policy of a call. With an escalation it asks the people first; rejects with EscalationError when it is malformed, not wider than
   * what holds, or not granted, and with SandboxError when the sandbox cannot run commands under it, which `files` does not care about.
   * Nothing has run then.
   */
  policyFor(call: SandboxedCall, request: EscalationRequest, purpose: 'command' | 'files'): Promise<SandboxPolicy>
  /** The command line for a policy: confined, or as it is where nothing is to be confined. Throws SandboxError where it must be and cannot. */
  wrap(argv: readonly [string, ...string[]], policy: SandboxPolicy, options: ConfineOptions): Confined
  /**
   * Whether a file tool may change the file of this canonical path: true, or the mode that forbids it. `granted` is the mode that holds
   * for this one call, as `policyFor` said.
   */
  mayWrite(path: string, agent: object | undefined, granted?: SandboxMode): Promise<true | SandboxMode>
}

/** Stands where commands are to be confined and cannot be: whatever is asked of it fails with the reason. */
export function unavailableSandbox(reason: string): Sandbox {
  const fail = (): never => {
    throw new SandboxError(reason)
  }
  const reject = () => Promise.reject(new SandboxError(reason))
  const refusing = { assertUsable: reject, confine: fail, classify: fail, isBroken: reject }
  return { name: 'none', enforcement: 'full', confines: [], ...refusing }
}

/** Why an escalation was not granted; `code` tells the ways apart. */
export class EscalationError extends CodedError {
  declare readonly code:
    | 'ESCALATION_INVALID'
    | 'ESCALATION_REJECTED'
    | 'ESCALATION_CANCELLED'
    | 'ESCALATION_UNAVAILABLE'
}

declare module '../../services.ts' {
  interface Services {
    sandboxPolicies: SandboxPolicies
  }
}
