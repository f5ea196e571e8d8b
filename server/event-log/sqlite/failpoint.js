// For the crash tests alone: `FAILPOINT=after-call-commit` or `FAILPOINT=mid-mark:3` ends the process with SIGKILL where the log passes
// that point for the first (or third) time, which the timing of a kill from outside hardly ever hits (reliability.md C3).
const [point = '', nth = '1'] = (process.env['FAILPOINT'] ?? '').split(':')
let left = Number(nth)

if (point !== '' && process.env['NODE_ENV'] !== 'test') {
  throw new Error('FAILPOINT is for tests: it kills the server, and needs NODE_ENV=test')
}

/** @typedef {import('./protocol.ts').WireAppend} WireAppend */

/**
 * @param {`${'before' | 'after'}-${'call' | 'result'}-commit` | 'mid-blob-write' | 'mid-mark' | 'before-checkpoint' | 'after-checkpoint' |
 *   'mid-migration' | 'after-migration' | 'mid-retention' | 'after-retention'} name
 */
export function failpoint(name) {
  if (name !== point) return
  left -= 1
  if (left === 0) process.kill(process.pid, 'SIGKILL')
}

/**
 * Where a batch is about to be committed, or was: points named for the events it holds.
 * @param {'before' | 'after'} when
 * @param {readonly WireAppend[]} appends
 */
export function failpointAtCommit(when, appends) {
  if (point === '') return
  for (const kind of /** @type {const} */ (['call', 'result'])) {
    const holds = appends.some(({ events }) => events.some(([type]) => type === `tool/${kind}`))
    if (holds) failpoint(`${when}-${kind}-commit`)
  }
}
