import { describe, expect, it } from 'vitest'
import { ApprovalFixture } from '../helpers/approval-fixture.ts'

describe('what the log has of an approval (core.md §23)', () => {
  it('the ask with its reason if any, the decision with by whom and the edit; neither is on the surface [core-23.approval-asked] [core-23.approval-decided]', async () => {
    const fixture = new ApprovalFixture()
    const decided = async (callId: string, verdict: object, reason?: string): Promise<string> => {
      fixture.decision = { kind: 'ask', ...(reason === undefined ? {} : { reason }) }
      const { answer, approval } = await fixture.waiting(callId, { a: 1 })
      await fixture.service.decide(approval.id, { decision: 'allow', ...verdict }, 'ann')
      await answer
      return approval.id
    }
    const plain = await decided('c1', {})
    const edited = await decided('c2', { arguments: { a: 2 } }, 'risky')
    const { events } = await fixture.log.read({ session: 's1', after: -1, limit: 100, types: ['approval/*'] })
    expect(events.map(({ type, data }) => [type, data])).toEqual([
      ['approval/asked', { id: plain, toolName: 'body', callId: 'c1' }],
      ['approval/decided', { id: plain, outcome: 'allowed-once', by: 'ann' }],
      ['approval/asked', { id: edited, toolName: 'body', callId: 'c2', reason: 'risky' }],
      ['approval/decided', { id: edited, outcome: 'allowed-once', by: 'ann', arguments: { a: 2 } }]
    ])
    expect(events.some((event) => 'surfaceOp' in event || 'sourceEventSeqs' in event)).toBe(false)
    expect(fixture.ran).toEqual([{ a: 1 }, { a: 2 }])
  })

  it('a call that is rejected late, after its abort, is decided once [core-25.4.late]', async () => {
    const fixture = new ApprovalFixture()
    let fail: (error: Error) => void = () => undefined
    const asked = new Promise<void>((resolve) => {
      fixture.tools.addHook(
        'approvalRequest',
        () =>
          new Promise((_resolve, reject) => {
            fail = reject
            resolve()
          })
      )
    })
    const call = fixture.invoke('c1')
    await asked
    fixture.calls.abort(new Error('stop'))
    expect((await call).error?.info?.code).toBe('ABORTED_BEFORE_DISPATCH')
    fail(new Error('too late'))
    await new Promise((resolve) => setImmediate(resolve))
    expect((await fixture.approvalEvents()).map(({ data }) => data.outcome)).toEqual([undefined, 'cancelled'])
  })
})
