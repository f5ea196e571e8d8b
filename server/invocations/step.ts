import { StoreUnavailableError } from '../event-log/event-log.ts'
import type { Session } from '../sessions/session.ts'
import type { StepRef, StepRequest } from '../sessions/turns.ts'
import type { Slot } from './slot.ts'
import type { CallEngine } from './call-run.ts'
import { Opening } from './opening.ts'

/** Places calls in a step; throws the turn and step errors of api.md §2. What it returns is to be appended before anything else. */
export type Enter = (request: StepRequest) => { ref: StepRef; opening: Opening }

/**
 * Runs the calls of one request in their step and gives its place back. When the machinery around them fails (core.md §22.7), the
 * session is stale: its step may be open for ever, and only a repair, which reads the log, knows.
 */
export async function inStep(
  engine: CallEngine,
  { session, slot, isPlaced = false }: { session: Session; slot: Slot; isPlaced?: boolean },
  run: (enter: Enter) => Promise<void>
): Promise<void> {
  let hasPlace = isPlaced
  try {
    await run((request) => {
      const { ref, events, contexts } = session.enter(request)
      hasPlace = true
      if (contexts.length > 0) engine.pipeline.stepStarting(session, contexts)
      return { ref, opening: new Opening(events) }
    })
  } catch (error) {
    // Of an append that was refused the session has judged itself.
    if (hasPlace && !(error instanceof StoreUnavailableError)) session.fail(error)
    throw error
  } finally {
    slot.release()
  }
}
