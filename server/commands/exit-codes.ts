/** Exit codes by what they mean; those from 64 on are of sysexits.h. The help and the documentation print this table. */
export const exitCodes = {
  0: 'done',
  1: 'the tool failed; with --dry-run, the call would be refused',
  64: 'the command line is not understood',
  65: 'the server refused the request, or an input file is not what it should be',
  69: 'the server cannot be reached, or cannot work right now',
  70: 'the server failed, or what answered is no Toolwright server',
  74: 'an event log, a backup or an export is damaged or cannot be used',
  75: 'a limit is reached; try again later',
  77: 'the token is missing, not valid, or may not do that',
  78: 'the configuration is not valid, or a file of it cannot be used',
  130: 'ended by Ctrl-C',
  141: 'whoever read the output is gone'
} as const

export type ExitCode = keyof typeof exitCodes

/** The exit code for an answer of the server that is no success. */
export function exitCodeOf(status: number): ExitCode {
  if (status === 401 || status === 403) return 77
  if (status === 429) return 75
  if (status === 502 || status === 503 || status === 504) return 69
  return status >= 500 ? 70 : 65
}
