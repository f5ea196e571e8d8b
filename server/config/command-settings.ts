import { Type } from '@sinclair/typebox'
import { sandboxMode } from './sandbox-settings.ts'
import { bytes, choice, durationMs, integer, strings } from './setting-kinds.ts'

/** The section `shell`. */
export const shellSettings = Type.Object({
  executor: choice(
    ['auto', 'bash-local', 'bash-sandbox', 'pwsh-local'],
    'auto',
    'How commands run; `auto` is `bash-local` on a loopback host, else `bash-sandbox`. `pwsh-local`: the tool `pwsh` instead of `bash`.'
  ),
  timeoutMs: durationMs(120_000, 'Time limit of a command that names none.'),
  maxTimeoutMs: durationMs(600_000, 'Longest time limit that a command may name.'),
  maxOutputBytes: bytes(64_000, 'Bytes of each output stream kept in memory.'),
  maxSpillBytes: bytes(64 * 1024 * 1024, 'Bytes of each output stream kept in a file.'),
  graceMs: durationMs(3_000, 'Time between SIGTERM and SIGKILL.')
})

/** The section `sandbox`. */
export const sandboxSettings = Type.Object({
  required: Type.Boolean({
    default: false,
    description:
      'Nothing runs unconfined: no `bash-local`, no `danger-full-access`; without a sandbox that works there is no `bash`.'
  }),
  mode: choice(
    ['read-only', 'workspace-write', 'danger-full-access'],
    'workspace-write',
    'What commands and file tools may write where a session has no mode of its own.'
  ),
  scopes: Type.Record(Type.String(), sandboxMode, {
    default: {},
    description: 'The mode of single scopes and all below them, by the scope’s id; the nearest counts.'
  }),
  hidden: strings('Files and directories that neither commands in the sandbox nor file tools can read.'),
  network: choice(['host', 'none'], 'host', 'Whether commands in the sandbox have the network.'),
  uid: integer(61_100, 1, 'User and group that commands in the sandbox run as when the server is root.', 4_294_967_294),
  environment: strings('Variables of the server that commands in the sandbox see, besides PATH, LANG, TERM and TZ.'),
  maxProcesses: integer(256, 1, 'Processes and threads of one command in the sandbox.'),
  maxOpenFiles: integer(1_024, 1, 'Open files of one process in the sandbox.'),
  maxFileBytes: bytes(1024 ** 3, 'Largest file that a command in the sandbox can write.'),
  maxMemoryBytes: integer(0, 0, 'Address space of one process in the sandbox; 0 is no limit.'),
  maxTmpBytes: bytes(512 * 1024 * 1024, 'Size of the private /tmp of one command in the sandbox, which is memory.')
})

/** The section `terminals`. */
export const terminalsSettings = Type.Object({
  maxPerSession: integer(16, 1, 'Terminals that one session may have open.'),
  max: integer(128, 1, 'Terminals open on the whole server; each may keep `scrollbackBytes`, twice for a while.'),
  idleMs: durationMs(3_000, 'Silence after which a send comes back though its command may go on.'),
  timeoutMs: durationMs(30_000, 'Longest wait of a send, and longest start of a terminal.'),
  graceMs: durationMs(3_000, 'Time between SIGTERM and SIGKILL when a terminal is closed.'),
  scrollbackLines: integer(10_000, 1, 'Lines that a terminal keeps.'),
  scrollbackBytes: bytes(4 * 1024 * 1024, 'Bytes that a terminal keeps.'),
  maxInputBytes: bytes(1024 * 1024, 'Largest text of one send.'),
  maxResultBytes: integer(262_144, 64, 'Largest text of one result of the terminal tools.', 262_144),
  liveBytesPerSecond: bytes(64 * 1024, 'Output a second that is sent to those who watch; the newest, in a flood.')
})

/** The section `jobs`. */
export const jobsSettings = Type.Object({
  enableRunInBackground: Type.Boolean({
    default: true,
    description: 'Whether tools offer to run their work in the background.'
  }),
  maxConcurrentPerOwner: integer(10, 1, 'Background jobs of one session running at a time.'),
  maxFinishedPerOwner: integer(100, 1, 'Finished jobs of one session that stay listed; the oldest make room.'),
  maxFinished: integer(1_000, 1, 'Finished jobs of all sessions that stay listed; the oldest make room.'),
  waitTimeoutMs: durationMs(30_000, 'How long job_output waits for the end of a job unless told.'),
  maxWaitTimeoutMs: durationMs(600_000, 'The longest that job_output waits.')
})
