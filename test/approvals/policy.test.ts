import { describe, expect, it } from 'vitest'
import { ApprovalPolicy } from '../../server/approvals/policy.ts'
import { ApprovalFixture } from '../helpers/approval-fixture.ts'

describe('the approval policy of a session (core.md §25.5)', () => {
  it('is the last one in its log, else the deployment’s [core-25.5.effective] [core-23.approval-policy]', async () => {
    const fixture = new ApprovalFixture()
    fixture.decision = { kind: 'allow' }
    await fixture.invoke('c1')
    const session = await fixture.open()
    expect(new ApprovalPolicy('never').of(session)).toBe('never')
    await fixture.policy.set(session, 'never', 'preset')
    await fixture.policy.set(session, 'ask')
    expect(new ApprovalPolicy('never').of(session)).toBe('ask')
    expect((await fixture.approvalEvents()).map(({ data }) => data)).toEqual([
      { policy: 'never', source: 'preset' },
      { policy: 'ask' }
    ])
  })

  it('an unknown value throws before anything is logged; the same value logs nothing, also at the same time [core-25.5.unknown] [core-25.5.switch] [core-30.type-error]', async () => {
    const fixture = new ApprovalFixture()
    fixture.decision = { kind: 'allow' }
    await fixture.invoke('c1')
    const session = await fixture.open()
    await expect(fixture.policy.set(session, 'always' as never)).rejects.toBeInstanceOf(TypeError)
    await fixture.policy.set(session, 'ask')
    expect(await fixture.approvalEvents()).toEqual([])
    await Promise.all([fixture.policy.set(session, 'never'), fixture.policy.set(session, 'never')])
    expect(await fixture.approvalEvents()).toHaveLength(1)
  })

  it('a change is told to the model with the next step, also after a restart [core-25.5.switch]', async () => {
    const fixture = new ApprovalFixture()
    fixture.decision = { kind: 'allow' }
    await fixture.invoke('c1')
    await fixture.policy.set(await fixture.open(), 'never')
    const next = new ApprovalFixture(fixture.log)
    next.decision = { kind: 'allow' }
    await next.invoke('c2')
    const { events } = await next.log.read({ session: 's1', after: -1, limit: 500, types: ['user/message'] })
    expect(events.map(({ data }) => JSON.stringify(data))).toEqual([expect.stringContaining('Approvals are off')])
  })
})
