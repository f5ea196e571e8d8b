import type { EventLog } from '../event-log/event-log.ts'
import type { DurableEvents } from '../events/vocabulary.ts'

/** The data of a session's last event of a type, undefined when none is kept. */
export async function lastEvent<Type extends keyof DurableEvents>(
  log: EventLog,
  session: string,
  type: Type
): Promise<DurableEvents[Type] | undefined> {
  const seq = await log.lastSeq(session, type)
  if (seq < 0) return undefined
  const { events } = await log.read({ session, after: seq - 1, limit: 1, types: [type] })
  return events[0]?.data as DurableEvents[Type] | undefined
}
