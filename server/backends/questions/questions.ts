import { CodedError } from '../../errors.ts'

/** A question as a model puts it (backends.md §9). Without options it is answered in words. */
export interface Question {
  id: string
  question: string
  header?: string
  options?: readonly { label: string; description?: string }[]
  multi_select?: boolean
}

/** What somebody answered: labels of options, words of their own, or both. */
export interface Answer {
  id: string
  selected: string[]
  custom?: string
}

/** One question or several, and the call whose body asks them. */
export interface QuestionAsk {
  /** The session that is worked for. */
  agent: object | undefined
  callId: string
  toolName: string
  questions: readonly Question[]
  signal: AbortSignal
}

export type AskErrorCode =
  | 'EMPTY_QUESTIONS'
  | 'BAD_INTENT'
  | 'CALLER_NOT_LIVE'
  | 'NO_PROVIDER'
  | 'DUPLICATE_PROVIDER'
  | 'ASK_ABORTED'
  | 'ASK_CANCELLED'

/** Questions that were not, or could not be, answered (backends.md §9). */
export class AskError extends CodedError {
  declare readonly code: AskErrorCode
}

/** Puts questions to people. */
export interface Questions {
  /** Waits for the answers, which come in the order of the questions. Rejects with AskError, or when nothing can be stored. */
  ask(ask: QuestionAsk): Promise<readonly Answer[]>
}

declare module '../../services.ts' {
  interface Services {
    questions: Questions
  }
}
