import type { Session } from '../sessions/session.ts'
import { messageEvent } from '../sessions/session.ts'
import type { TurnEndKind } from '../sessions/turns.ts'
import type { UserMessage } from '../tools/definition.ts'
import type { CallEngine } from './call-run.ts'

/** Aborts of turns under way: whoever asks again waits for the same end, and the first cause wins (core.md §24.3). */
const ending = new WeakMap<Session, Promise<void>>()

/**
 * Ends the open turn and opens the next one, optionally with the user's message (api.md §2). Returns its number. Throws `TURN_BUSY`
 * while calls of the open one run.
 */
export async function openTurn({ pipeline }: CallEngine, session: Session, message?: UserMessage): Promise<number> {
  session.assertBelieved()
  const opened = session.turns.openTurn()
  const events = [...session.takeOpening(), ...opened]
  const { turn } = session.turns.state
  // Before anything of the new turn: a person has spoken (core.md §26.5).
  if (message !== undefined) pipeline.stepStarting(session, [message])
  await session.append(message === undefined ? events : [...events, messageEvent(message)])
  return turn
}

/**
 * Ends a turn. Throws `TURN_CLOSED` unless it is the open one, and `TURN_BUSY` while its calls run, except for `aborted`: that drops the
 * queued contexts, aborts the calls and waits for them; contexts that come meanwhile stay queued for the next turn (core.md §24.3).
 */
export async function endTurn(
  engine: CallEngine,
  session: Session,
  { turn, kind, cause }: { turn: number; kind: TurnEndKind; cause?: string }
): Promise<void> {
  session.assertBelieved()
  session.turns.assertOpen(turn)
  const underWay = ending.get(session)
  if (underWay !== undefined && kind === 'aborted') return underWay
  if (kind !== 'aborted') {
    // Its calls may have their results by now, and yet it is the abort that ends it: no turn ends twice.
    session.turns.assertNotEnding()
    await session.append(session.turns.endTurn(kind, cause), { closing: true })
    return undefined
  }
  const end = abortTurn(engine, session, cause)
  ending.set(session, end)
  try {
    await end
  } finally {
    ending.delete(session)
  }
}

async function abortTurn({ calls }: CallEngine, session: Session, cause: string | undefined): Promise<void> {
  session.clearContexts()
  session.turns.beginEnd()
  const isInTurn = (call: { session: Session }): boolean => call.session === session
  calls.abort(new Error(cause ?? 'the turn was aborted'), isInTurn)
  await calls.whenQuiet(isInTurn)
  await session.append(session.turns.endTurn('aborted', cause), { closing: true })
}
