/**
 * The first line of an exported session (backends.md §14.1).
 * @param {import('./event-log.ts').Row} session its row
 */
export function headerLine({ id, scope, cwd, created_at: createdAt }) {
  const where = cwd == null ? {} : { cwd }
  return `${JSON.stringify({ type: 'session', version: 0, id, createdAt, ...where, scope, delegationDepth: 0 })}\n`
}

/**
 * One event of it, an envelope of core.md §23.
 * @param {{ type: string, seq: number, time: number, surfaceOp: string | null, sources: string | null, text: string }} event
 *   `sources` and `text` are JSON
 */
export function eventLine({ type, seq, time, surfaceOp, sources, text }) {
  const surface = surfaceOp === null ? '' : `,"surfaceOp":${JSON.stringify(surfaceOp)}`
  const cited = sources === null ? '' : `,"sourceEventSeqs":${sources}`
  return `{"type":${JSON.stringify(type)},"seq":${seq},"time":${time},"data":${text}${surface}${cited}}\n`
}
