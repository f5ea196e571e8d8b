import { describe, expect, it } from 'vitest'
import askUser from '../../../plugins/tools/ask-user.ts'
import type { Approval } from '../../../server/approvals/approval.ts'
import type { ApprovalsOptions, Verdict } from '../../../server/approvals/approvals.ts'
import { UserQuestions } from '../../../server/approvals/questions.ts'
import { ApprovalFixture } from '../../helpers/approval-fixture.ts'
import type { FlakyLog } from '../../helpers/flaky-log.ts'
import { until } from '../../helpers/until.ts'

const questions = [
  { id: 'q1', question: 'Which?', options: [{ label: 'a' }, { label: 'b', description: 'the other' }], extra: [1] },
  { id: 'q2', question: 'Why?' }
]
const answers = [
  { id: 'q2', custom: 'because' },
  { id: 'q1', selected: ['b'] }
]

/** The tool over the real approval service; `hasProvider` false leaves questions without anybody. */
async function open({
  log,
  more,
  hasProvider = true
}: { log?: FlakyLog; more?: Partial<ApprovalsOptions>; hasProvider?: boolean } = {}) {
  const fixture = new ApprovalFixture(log, more)
  fixture.decision = { kind: 'allow' }
  const people = new UserQuestions()
  if (hasProvider) people.provide((ask) => fixture.service.askQuestions(ask))
  await fixture.tools.mount(askUser, {}, () => people)
  const ask = async (callId: string, asked: unknown = questions) => {
    const session = await fixture.open()
    const answer = fixture.invocations.invoke({
      session,
      callId,
      name: 'ask_user_question',
      arguments: { questions: asked as never }
    })
    answer.catch(() => undefined)
    return answer
  }
  const waiting = async (callId: string) => {
    const answer = ask(callId)
    const find = (): Approval | undefined => fixture.announced.find((approval) => approval.callId === callId)
    await until(() => find() !== undefined)
    return { answer, approval: find() as Approval }
  }
  const decide = (id: string, verdict: Verdict, by = 'ui') =>
    fixture.service.decide(id, verdict, by).then(
      ({ decision }) => decision?.outcome,
      (error: { code: string }) => error.code
    )
  return { fixture, ask, waiting, decide }
}

const codeIn = ({ error }: { error?: { info?: { code: string } } }) => error?.info?.code

describe('ask_user_question', () => {
  it('C68 waits for the answers, which are its value, and logs who was asked', async () => {
    const { fixture, waiting, decide } = await open()
    const { answer, approval } = await waiting('c1')
    expect(approval).toMatchObject({
      kind: 'question',
      callId: 'c1',
      toolName: 'ask_user_question',
      arguments: { questions }
    })
    expect(await decide(approval.id, { decision: 'answer', answers })).toBe('answered')
    const value = {
      answers: [
        { id: 'q1', selected: ['b'] },
        { id: 'q2', selected: [], custom: 'because' }
      ]
    }
    expect(await answer).toMatchObject({
      isError: false,
      value,
      content: [{ type: 'text', text: JSON.stringify(value) }]
    })
    expect(await fixture.approvalEvents()).toEqual([
      {
        type: 'approval/asked',
        data: { id: approval.id, kind: 'question', toolName: 'ask_user_question', callId: 'c1' }
      },
      { type: 'approval/decided', data: { id: approval.id, outcome: 'answered', by: 'ui' } }
    ])
    expect(await fixture.service.get(approval.id)).toMatchObject({
      kind: 'question',
      decision: { answers: value.answers }
    })
  })

  it('C68 is answered by nobody when nobody is there, and asks nothing when there is no question', async () => {
    const { fixture, ask } = await open({ hasProvider: false })
    expect(codeIn(await ask('c1'))).toBe('NO_PROVIDER')
    expect(codeIn(await ask('c2', []))).toBe('EMPTY_QUESTIONS')
    expect(codeIn(await ask('c3', [{ id: 'q' }]))).toBe('INVALID_ARGS')
    expect(await fixture.approvalEvents()).toEqual([])
  })

  it('C68 ends with its call: the answer that comes later finds it cancelled', async () => {
    const { fixture, waiting, decide } = await open()
    const { answer, approval } = await waiting('c1')
    fixture.calls.abort(new Error('stop'))
    expect(codeIn(await answer)).toBe('ASK_ABORTED')
    expect(await decide(approval.id, { decision: 'answer', answers })).toBe('ALREADY_DECIDED')
    expect(await fixture.row(approval.id)).toMatchObject({ state: 'decided', outcome: 'cancelled' })
  })

  it('can be dismissed', async () => {
    const { waiting, decide } = await open()
    const { answer, approval } = await waiting('c1')
    expect(await decide(approval.id, { decision: 'deny' })).toBe('rejected')
    expect(codeIn(await answer)).toBe('ASK_CANCELLED')
  })

  it('is pending still after what is no answer', async () => {
    const { waiting, decide } = await open()
    const { answer, approval } = await waiting('c1')
    const wrong: Verdict[] = [
      { decision: 'allow' },
      { decision: 'answer' },
      {
        decision: 'answer',
        answers: [
          { id: 'q1', selected: ['c'] },
          { id: 'q2', custom: 'x' }
        ]
      }
    ]
    for (const verdict of wrong) expect(await decide(approval.id, verdict)).toBe('INVALID_ARGS')
    expect(await decide(approval.id, { decision: 'answer', answers, hash: 'other' })).toBe('APPROVAL_STALE')
    expect(await decide(approval.id, { decision: 'answer', answers, hash: approval.hash })).toBe('answered')
    expect((await answer).isError).toBe(false)
  })

  it('takes one of many answers that come at once', async () => {
    const { waiting, decide } = await open()
    const { answer, approval } = await waiting('c1')
    const verdicts = Array.from({ length: 10 }, (_, at): Verdict =>
      at % 2 === 0 ? { decision: 'answer', answers } : { decision: 'deny' }
    )
    const outcomes = await Promise.all(verdicts.map((verdict) => decide(approval.id, verdict)))
    expect(outcomes.filter((outcome) => outcome === 'ALREADY_DECIDED')).toHaveLength(9)
    const won = outcomes.find((outcome) => outcome !== 'ALREADY_DECIDED')
    expect((await answer).isError).toBe(won === 'rejected')
  })

  it('asks people only: no answerer, and no policy that is about approvals, speaks for them', async () => {
    const { fixture, waiting, decide } = await open()
    fixture.tools.addHook('approvalRequest', () => ({ outcome: 'rejected' }))
    await fixture.policy.set(await fixture.open(), 'never')
    const { answer, approval } = await waiting('c1')
    expect(await decide(approval.id, { decision: 'answer', answers })).toBe('answered')
    expect((await answer).isError).toBe(false)
  })

  it('ends when it was waited for too long', async () => {
    const { fixture, waiting } = await open()
    const { answer, approval } = await waiting('c1')
    fixture.clock.pass(1_000)
    expect(codeIn(await answer)).toBe('NO_PROVIDER')
    expect(await fixture.row(approval.id)).toMatchObject({ outcome: 'unavailable' })
  })

  it('an approval of a tool takes no answers', async () => {
    const { fixture, decide } = await open()
    fixture.decision = { kind: 'ask' }
    const { answer, approval } = await fixture.waiting('c1')
    expect(await decide(approval.id, { decision: 'answer', answers })).toBe('INVALID_ARGS')
    expect(await decide(approval.id, { decision: 'allow' })).toBe('allowed-once')
    expect((await answer).isError).toBe(false)
  })

  it('holds no place while it waits', async () => {
    const { fixture, waiting, decide } = await open()
    // Every place but one is taken by others, so the second call needs the one of the first.
    const others = Array.from({ length: 99 }, () => fixture.admission.request({ scope: fixture.tree.global }))
    const { answer, approval } = await waiting('c1')
    expect(await fixture.invoke('c2', 's2')).toMatchObject({ isError: false })
    await decide(approval.id, { decision: 'answer', answers })
    expect((await answer).isError).toBe(false)
    for (const slot of others) slot.release()
  })
})

describe('the end of the server', () => {
  it('withdraws what is asked, and nothing is asked any more', async () => {
    const { fixture, ask, waiting } = await open()
    const { answer, approval } = await waiting('c1')
    fixture.service.pending.beginShutdown()
    expect(codeIn(await answer)).toBe('ASK_CANCELLED')
    expect(await fixture.row(approval.id)).toMatchObject({ outcome: 'cancelled' })
    expect(codeIn(await ask('c2'))).toBe('ASK_CANCELLED')
  })

  it('leaves nothing open when it was sudden: the question is closed as cancelled (api.md §7)', async () => {
    const first = await open()
    const { approval } = await first.waiting('c1')
    const next = await open({ log: first.fixture.log })
    await next.fixture.service.pending.restore()
    expect(await next.fixture.row(approval.id)).toMatchObject({ state: 'decided', outcome: 'cancelled' })
    expect(next.fixture.service.list(() => true)).toEqual([])
  })
})
