import { describe, expect, it } from 'vitest'
import { type Answer, startApp, type TestApp } from '../helpers/app.ts'
import { EventClient } from '../helpers/served-app.ts'
import { until } from '../helpers/until.ts'

const questions = [
  { id: 'q1', question: 'Which?', options: [{ label: 'a' }, { label: 'b' }] },
  { id: 'q2', question: 'Why?' }
]
const answers = [
  { id: 'q1', selected: ['a'] },
  { id: 'q2', custom: 'because' }
]

async function pending(app: TestApp): Promise<any> {
  let list: any[] = []
  await until(async () => (list = (await app.get('/approvals')).body.approvals).length > 0)
  return list[0]
}

function ask(app: TestApp, callId: string) {
  return app.invoke({ name: 'ask_user_question', arguments: { questions }, callId })
}

const brief = ({ status, body }: Answer): string => `${status} ${body.outcome ?? body.error.code}`

describe('questions over the wire (api.md §7)', () => {
  it('C68 are listed beside approvals, and answered once', async () => {
    const app = await startApp()
    const client = await EventClient.open(app.served)
    await client.ask({ type: 'subscribe', id: 'a' })
    const answer = ask(app, 'c1')
    const { event } = await client.next((frame) => frame.event?.type === 'approval/pending')
    expect(event).toMatchObject({ session: 'default', data: { kind: 'question', callId: 'c1' } })
    const question = await pending(app)
    expect(question).toEqual({
      id: expect.any(String),
      kind: 'question',
      session: 'default',
      scope: 'global',
      callId: 'c1',
      toolName: 'ask_user_question',
      questions,
      hash: expect.any(String),
      createdAt: expect.any(Number),
      expiresAt: expect.any(Number),
      state: 'pending'
    })
    const overHttp = app.post(`/approvals/${question.id}`, { answers })
    client.send({ type: 'approval', id: 'f', approvalId: question.id, answers })
    const { type, code = type } = await client.next((frame) => frame['id'] === 'f')
    const won = [brief(await overHttp), code]
    expect(won).toEqual(
      won[0] === '200 answered' ? ['200 answered', 'ALREADY_DECIDED'] : ['409 ALREADY_DECIDED', 'approval/decided']
    )
    const value = { answers: [answers[0], { id: 'q2', selected: [], custom: 'because' }] }
    expect(await answer).toMatchObject({ isError: false, value, content: [{ text: JSON.stringify(value) }] })
  })

  it('are dismissed with "deny", and shown as they were answered', async () => {
    const app = await startApp()
    const first = ask(app, 'c1')
    const { id } = await pending(app)
    expect(brief(await app.post(`/approvals/${id}`, { decision: 'deny', reason: 'not now' }))).toBe('200 rejected')
    expect((await first).error?.info?.code).toBe('ASK_CANCELLED')
    const second = ask(app, 'c2')
    const { body } = await app.post(`/approvals/${(await pending(app)).id}`, { answers })
    expect(body).toMatchObject({
      kind: 'question',
      state: 'decided',
      outcome: 'answered',
      answers: [{ id: 'q1' }, { id: 'q2' }]
    })
    expect(body).not.toHaveProperty('arguments')
    expect((await second).isError).toBe(false)
  })

  it('stay pending after what is no answer', async () => {
    const app = await startApp()
    const answer = ask(app, 'c1')
    const { id, hash } = await pending(app)
    const reply = async (body: unknown) => brief(await app.post(`/approvals/${id}`, body))
    expect(await reply({})).toBe('400 BAD_REQUEST')
    expect(await reply({ decision: 'deny', answers })).toBe('400 BAD_REQUEST')
    expect(await reply({ answers: 'a' })).toBe('400 BAD_REQUEST')
    expect(await reply({ answers: [{ id: 'q1', selected: 'a' }] })).toBe('400 BAD_REQUEST')
    expect(await reply({ answers: [{ id: 'q1', extra: 1 }] })).toBe('400 BAD_REQUEST')
    expect(await reply({ answers: [answers[0], { id: 'q2', custom: 'x'.repeat(70_000) }] })).toBe('400 BAD_REQUEST')
    expect(await reply({ decision: 'allow' })).toBe('400 INVALID_ARGS')
    expect(await reply({ answers: [{ id: 'q1', selected: ['z'] }, answers[1]] })).toBe('400 INVALID_ARGS')
    expect(await reply({ answers, hash: 'x' })).toBe('409 APPROVAL_STALE')
    expect(await reply({ answers, hash })).toBe('200 answered')
    expect(await reply({ answers })).toBe('409 ALREADY_DECIDED')
    expect((await answer).isError).toBe(false)
  })

  it('an answer to an ask of a tool is refused', async () => {
    const app = await startApp()
    app.app.tools.addHook('preExecute', (exec, next) => (exec.name === 'echo' ? { kind: 'ask' } : next()))
    const answer = app.invoke({ name: 'echo', callId: 'c1' })
    const { id } = await pending(app)
    expect(brief(await app.post(`/approvals/${id}`, { answers }))).toBe('400 INVALID_ARGS')
    expect(brief(await app.post(`/approvals/${id}`, { decision: 'allow' }))).toBe('200 allowed-once')
    expect((await answer).isError).toBe(false)
  })

  it('C68 end with their call', async () => {
    const app = await startApp()
    const answer = ask(app, 'c1')
    const { id } = await pending(app)
    await app.cancel('c1')
    expect(await answer).toMatchObject({ isError: true })
    expect(brief(await app.post(`/approvals/${id}`, { answers }))).toBe('409 ALREADY_DECIDED')
    expect((await app.get('/approvals')).body.approvals).toEqual([])
  })

  it('wait beside other calls of their session, whose places they do not take', async () => {
    const app = await startApp({ 'calls.maxConcurrent': '1' })
    const answer = ask(app, 'c1')
    const { id } = await pending(app)
    expect((await app.report('c1')).body.state).toBe('awaiting-approval')
    expect((await app.invoke({ name: 'echo', arguments: { text: 'hi' } })).value).toBe('hi')
    await app.post(`/approvals/${id}`, { answers })
    expect((await answer).isError).toBe(false)
  })
})
