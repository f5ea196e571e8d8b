import { describe, expect, it } from 'vitest'
import { ApprovalPolicy } from '../../server/approvals/policy.ts'
import { SandboxModes } from '../../server/presets/sandbox-modes.ts'
import type { Session } from '../../server/sessions/session.ts'
import { ApprovalFixture } from '../helpers/approval-fixture.ts'

/** What would hold by default is as wide as can be. */
const modes = new SandboxModes({ fallback: 'danger-full-access', scopes: {}, widest: 'danger-full-access' })
const policy = new ApprovalPolicy('never')

async function narrowed(): Promise<{ fixture: ApprovalFixture; session: Session }> {
  const fixture = new ApprovalFixture()
  fixture.decision = { kind: 'allow' }
  await fixture.invoke('c1')
  const session = await fixture.open()
  await session.append([
    ...modes.change(session, 'read-only', 'test'),
    ...policy.change(session, 'ask', 'test'),
    { type: 'permission/preset', data: { preset: 'read-only' } }
  ])
  return { fixture, session }
}

const held = (session: Session): unknown[] => [
  modes.of(session),
  policy.of(session),
  session.facts.last('permission/preset')
]

describe('what holds in a session (backends.md §11.1, §12; core.md §25.5)', () => {
  it('stands in its row, and outlives the events that said it', async () => {
    const { fixture, session } = await narrowed()
    expect((await fixture.log.rows('sessions', { id: 's1' }))[0]).toMatchObject({
      sandbox_mode: 'read-only',
      approval_policy: 'ask',
      preset: 'read-only'
    })
    await fixture.invoke('c2')
    await fixture.log.prune('s1', 1_000)
    expect(await fixture.events()).toEqual([])
    expect(held(session)).toEqual(['read-only', 'ask', 'read-only'])
    const next = new ApprovalFixture(fixture.log)
    expect(held(await next.open())).toEqual(['read-only', 'ask', 'read-only'])
  })

  it('goes with the session: one that is made under its name later begins with the defaults', async () => {
    const { fixture, session } = await narrowed()
    await fixture.sessions.delete(session, async () => undefined)
    expect(held(await fixture.open())).toEqual(['danger-full-access', 'never', undefined])
  })

  it('is what is stored, after an append that was refused', async () => {
    const { fixture, session } = await narrowed()
    fixture.log.refuses = () => true
    await expect(
      session.append([
        ...modes.change(session, 'danger-full-access', 'test'),
        { type: 'permission/preset', data: { preset: 'danger-full-access' } }
      ])
    ).rejects.toThrow('the disk is full')
    fixture.log.refuses = () => false
    expect(held(await fixture.open())).toEqual(['read-only', 'ask', 'read-only'])
  })
})
