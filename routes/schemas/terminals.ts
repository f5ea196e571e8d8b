import { Type } from '@sinclair/typebox'
import { terminalSignals } from '../../server/backends/terminals/terminals.ts'

export const TerminalId = Type.String({ maxLength: 64, description: 'Id of a terminal, as pty-1.' })

export const TerminalStatus = Type.Object({
  kind: Type.Unsafe<'running' | 'exited'>({ type: 'string', enum: ['running', 'exited'] }),
  exitCode: Type.Optional(Type.Union([Type.Integer(), Type.Null()])),
  signal: Type.Optional(Type.Union([Type.String(), Type.Null()]))
})

export const Terminal = Type.Object(
  {
    id: TerminalId,
    name: Type.Optional(Type.String()),
    type: Type.String(),
    pid: Type.Optional(Type.Integer()),
    status: TerminalStatus,
    session: Type.String(),
    scope: Type.String()
  },
  { description: 'An open terminal.' }
)

export const TerminalOutput = Type.Object({
  text: Type.String({ description: 'Plain text: escape sequences and control characters are taken out.' }),
  from: Type.Integer({ description: 'Where `text` begins, in bytes of UTF-8 since the terminal was opened.' }),
  next: Type.Integer({ description: 'The `after` of the next read.' }),
  truncated: Type.Boolean({ description: 'Output between `after` and `from` is no longer kept.' }),
  status: TerminalStatus
})

export const TerminalSignal = Type.Unsafe<(typeof terminalSignals)[number]>({
  type: 'string',
  enum: [...terminalSignals]
})
