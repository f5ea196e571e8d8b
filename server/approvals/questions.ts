import {
  type Answer,
  AskError,
  type Question,
  type QuestionAsk,
  type Questions
} from '../backends/questions/questions.ts'
import { Session } from '../sessions/session.ts'

/** How it ended: `rejected` was dismissed, `cancelled` was ended from our side, `unavailable` found nobody. */
export type QuestionOutcome =
  | { outcome: 'answered'; answers: readonly Answer[] }
  | { outcome: 'rejected' | 'cancelled' | 'unavailable' }

/** Questions of a live session. */
export type SessionQuestions = QuestionAsk & { agent: Session }

/** Puts questions to people. Must settle when `signal` aborts. */
export type QuestionProvider = (ask: SessionQuestions) => Promise<QuestionOutcome>

/** Where questions go: to the one provider that there is. */
export class UserQuestions implements Questions {
  #provider: { ask: QuestionProvider } | undefined

  /** Returns the undo. Throws DUPLICATE_PROVIDER while there is another. */
  provide(ask: QuestionProvider): () => void {
    if (this.#provider !== undefined)
      throw new AskError('DUPLICATE_PROVIDER', 'questions go to another provider already')
    const provider = { ask }
    this.#provider = provider
    return () => {
      if (this.#provider === provider) this.#provider = undefined
    }
  }

  async ask(ask: QuestionAsk): Promise<readonly Answer[]> {
    const { agent, questions, signal } = ask
    if (questions.length === 0) throw new AskError('EMPTY_QUESTIONS', 'there is no question')
    const [fault] = faultsOf(questions)
    if (fault !== undefined) throw new AskError('BAD_INTENT', fault)
    if (!(agent instanceof Session) || agent.isStale)
      throw new AskError('CALLER_NOT_LIVE', 'questions need a live session')
    if (signal.aborted) throw aborted()
    if (this.#provider === undefined) throw new AskError('NO_PROVIDER', 'nobody is there to answer questions')
    const answer = await this.#provider.ask({ ...ask, agent })
    switch (answer.outcome) {
      case 'answered':
        return answer.answers
      case 'rejected':
        throw new AskError('ASK_CANCELLED', 'the user dismissed the questions')
      case 'cancelled':
        throw signal.aborted ? aborted() : new AskError('ASK_CANCELLED', 'the questions were withdrawn')
      case 'unavailable':
        throw new AskError('NO_PROVIDER', 'nobody answered the questions')
    }
  }
}

const aborted = (): AskError => new AskError('ASK_ABORTED', 'the call was cancelled while it waited for an answer')

/** Why questions cannot be put: nobody could tell whose an answer is. */
function faultsOf(questions: readonly Question[]): string[] {
  const twice = firstRepeated(questions.map(({ id }) => id))
  return [
    ...(twice === undefined ? [] : [`two questions have the id ${JSON.stringify(twice)}`]),
    ...questions.flatMap(({ id, question, options = [] }, at) => {
      const labels = options.map(({ label }) => label)
      const again = firstRepeated(labels)
      return [
        ...(id.trim() === '' ? [`question ${at + 1} has a blank id`] : []),
        ...(question.trim() === '' ? [`question ${JSON.stringify(id)} is blank`] : []),
        ...(labels.some((label) => label.trim() === '') ? [`question ${JSON.stringify(id)} has a blank option`] : []),
        ...(again === undefined ? [] : [`question ${JSON.stringify(id)} has two options ${JSON.stringify(again)}`])
      ]
    })
  ]
}

function firstRepeated(values: readonly string[]): string | undefined {
  const known = new Set<string>()
  return values.find((value) => known.has(value) || !known.add(value))
}

/** An answer as it comes over the wire. */
export type GivenAnswer = Omit<Answer, 'selected'> & { selected?: string[] }

/** The answers in the order of their questions, or what is wrong with them. */
export function matchAnswers(
  questions: readonly Question[],
  given: readonly GivenAnswer[]
): { answers: Answer[]; violations: string[] } {
  const byId = new Map(given.map((answer) => [answer.id, answer]))
  const violations = given
    .filter((answer) => byId.get(answer.id) !== answer)
    .map(({ id }) => `the question ${JSON.stringify(id)} is answered twice`)
  const answers = questions.flatMap((question): Answer[] => {
    const answer = byId.get(question.id)
    if (answer === undefined) {
      violations.push(`the question ${JSON.stringify(question.id)} has no answer`)
      return []
    }
    byId.delete(question.id)
    const { id, selected = [], custom } = answer
    violations.push(...violationsOf(question, selected, custom))
    return [{ id, selected, ...(custom === undefined ? {} : { custom }) }]
  })
  for (const id of byId.keys()) violations.push(`there is no question ${JSON.stringify(id)}`)
  return { answers, violations }
}

function violationsOf(
  { id, options = [], multi_select: isMulti = false }: Question,
  selected: readonly string[],
  custom: string | undefined
): string[] {
  const labels = new Set(options.map(({ label }) => label))
  const unknown = selected.filter((label) => !labels.has(label))
  const name = JSON.stringify(id)
  return [
    ...unknown.map((label) => `the question ${name} has no option ${JSON.stringify(label)}`),
    ...(new Set(selected).size < selected.length ? [`the question ${name} has an option selected twice`] : []),
    ...(selected.length > 1 && !isMulti ? [`the question ${name} takes one option`] : []),
    // Of several options none is an answer too.
    ...(selected.length === 0 && custom === undefined && !(isMulti && options.length > 0)
      ? [`the question ${name} has an empty answer`]
      : [])
  ]
}
