import { describe, expect, it } from 'vitest'
import { matchAnswers, UserQuestions } from '../../server/approvals/questions.ts'
import type { Question } from '../../server/backends/questions/questions.ts'
import { agentOf } from '../helpers/run-context.ts'

const which: Question = { id: 'which', question: 'Which?', options: [{ label: 'a' }, { label: 'b' }] }
const several: Question = { ...which, id: 'several', multi_select: true }
const words: Question = { id: 'words', question: 'Why?' }

describe('answers', () => {
  it('come in the order of the questions', () => {
    const given = [
      { id: 'words', custom: 'because' },
      { id: 'several', selected: ['b', 'a'] },
      { id: 'which', selected: ['a'], custom: 'or so' }
    ]
    expect(matchAnswers([which, several, words], given)).toEqual({
      violations: [],
      answers: [
        { id: 'which', selected: ['a'], custom: 'or so' },
        { id: 'several', selected: ['b', 'a'] },
        { id: 'words', selected: [], custom: 'because' }
      ]
    })
    expect(matchAnswers([several], [{ id: 'several' }]).violations).toEqual([])
    expect(matchAnswers([which], [{ id: 'which', custom: 'neither' }]).violations).toEqual([])
  })

  it.each([
    ['a question left out', [which, words], [{ id: 'words', custom: 'x' }], /"which" has no answer/],
    [
      'a question that was not asked',
      [words],
      [{ id: 'words', custom: 'x' }, { id: '__proto__' }],
      /no question "__proto__"/
    ],
    [
      'a question answered twice',
      [words],
      [
        { id: 'words', custom: 'x' },
        { id: 'words', custom: 'y' }
      ],
      /answered twice/
    ],
    ['an option that there is not', [which], [{ id: 'which', selected: ['constructor'] }], /no option "constructor"/],
    ['an option of a question without', [words], [{ id: 'words', selected: ['a'] }], /no option "a"/],
    ['two options of one', [which], [{ id: 'which', selected: ['a', 'b'] }], /takes one option/],
    ['an option twice', [several], [{ id: 'several', selected: ['a', 'a'] }], /selected twice/],
    ['nothing at all', [which], [{ id: 'which', selected: [] }], /empty answer/]
  ])('are refused with %s', (_name, questions, given, message) => {
    expect(matchAnswers(questions, given).violations).toEqual([expect.stringMatching(message)])
  })
})

describe('questions', () => {
  const call = { agent: agentOf('A'), callId: 'c1', toolName: 'asks', signal: new AbortController().signal }
  const code = async (questions: UserQuestions, asked: Question[]) =>
    questions.ask({ ...call, questions: asked }).then(
      () => 'answered',
      (error: { code: string }) => error.code
    )

  it('have one provider at a time', () => {
    const questions = new UserQuestions()
    const nobody = async () => ({ outcome: 'unavailable' }) as const
    const undo = questions.provide(nobody)
    expect(() => questions.provide(nobody)).toThrow(expect.objectContaining({ code: 'DUPLICATE_PROVIDER' }))
    undo()
    const second = questions.provide(nobody)
    // The undo of the first is spent.
    undo()
    expect(() => questions.provide(nobody)).toThrow()
    second()
  })

  it('C68 are refused when there are none, or when nobody could tell them apart', async () => {
    const questions = new UserQuestions()
    expect(await code(questions, [])).toBe('EMPTY_QUESTIONS')
    const bad: Question[][] = [
      [words, words],
      [{ ...words, id: ' ' }],
      [{ ...words, question: '' }],
      [{ ...which, options: [{ label: '' }] }],
      [{ ...which, options: [{ label: 'a' }, { label: 'a' }] }]
    ]
    for (const asked of bad) expect(await code(questions, asked)).toBe('BAD_INTENT')
    expect(await code(questions, [words])).toBe('CALLER_NOT_LIVE')
    // Compared with each other one by one, so many would take minutes.
    const many = Array.from({ length: 200_000 }, (_, at) => ({ ...words, id: String(at) }))
    expect(await code(questions, many)).toBe('CALLER_NOT_LIVE')
    expect(await code(questions, [...many, words, words])).toBe('BAD_INTENT')
  })
})
