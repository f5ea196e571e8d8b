import { describe, expect, it } from 'vitest'
import { permissions } from '../../../plugins/policies/permissions.ts'
import { type PermissionsConfig, Permissions } from '../../../plugins/policies/permissions-rules.ts'
import { allow, ask, deny } from '../../../server/pipeline/decisions.ts'
import { PipelineFixture, messageIn } from '../../helpers/pipeline-fixture.ts'

const rules: PermissionsConfig['rules'] = [
  { name: 'no-boom', decision: 'deny', tools: 'boom', reason: 'It explodes.' },
  { name: 'ask-echo', decision: 'ask', tools: 'echo' },
  { name: 'no-ghosts', decision: 'deny', tools: 'gh*t' },
  { name: 'nothing-secret', decision: 'deny', tools: 'need', arguments: [{ path: 'path', startsWith: '/secret/' }] }
]

async function policed(more: Partial<PermissionsConfig> = {}) {
  const fixture = new PipelineFixture()
  await fixture.tools.mount(permissions, {
    permissions: new Permissions({ default: 'allow', rules, scopes: {}, ...more })
  })
  fixture.approver = async () => ({ outcome: 'allowed-once' })
  return fixture
}

describe('the permissions policy', () => {
  it('refuses by a rule, which it names, before any other hook and the body', async () => {
    const fixture = await policed()
    const result = await fixture.call('boom')
    expect(messageIn(result)).toContain('the permission rule "no-boom" says deny: It explodes.')
    expect(fixture.stages).not.toContain('pre')
    expect(fixture.stages).not.toContain('body')
  })

  it('lets through what it allows, so that the other hooks still can refuse', async () => {
    const fixture = await policed()
    expect(await fixture.call('need', { path: 'x' })).toMatchObject({ value: 'x' })
    expect(fixture.stages).toContain('pre')
    fixture.hook('preExecute', () => deny('inner'))
    expect(messageIn(await fixture.call('need', { path: 'x' }))).toContain('inner')
  })

  it('asks with the name of the rule', async () => {
    const fixture = await policed()
    const agent = fixture.agent('a')
    expect(await fixture.call('echo', { text: 'hi' }, { agent })).toMatchObject({ value: 'hi' })
    expect(fixture.asks.map(({ reason }) => reason)).toEqual(['the permission rule "ask-echo" says ask'])
  })

  it('of an ask and what the other hooks say, the stricter counts', async () => {
    const fixture = await policed()
    const agent = fixture.agent('a')
    for (const decision of [allow(), ask(), ask('inner reason')]) {
      const undo = fixture.hook('preExecute', () => decision)
      await fixture.call('echo', {}, { agent })
      undo()
    }
    expect(fixture.asks.map(({ reason }) => reason)).toEqual([
      'the permission rule "ask-echo" says ask',
      'the permission rule "ask-echo" says ask',
      'the permission rule "ask-echo" says ask; inner reason'
    ])
    fixture.hook('preExecute', () => deny('inner'))
    expect(messageIn(await fixture.call('echo', {}, { agent }))).toContain('inner')
    expect(fixture.asks).toHaveLength(3)
  })

  it.each([undefined, 'allow', { kind: 'ALLOW' }, {}])(
    'an inner hook that answers %j fails an asked call too',
    async (decision) => {
      const fixture = await policed()
      fixture.hook('preExecute', () => decision as never)
      expect(await fixture.call('echo', {}, { agent: fixture.agent('a') })).toMatchObject({ isError: true })
      expect(fixture.asks).toEqual([])
      expect(fixture.stages).not.toContain('body')
    }
  )

  it('a hook that was there before and answers by itself does not get around it', async () => {
    const fixture = new PipelineFixture()
    fixture.hook('preExecute', () => allow())
    await fixture.tools.mount(permissions, { permissions: new Permissions({ default: 'deny', rules: [], scopes: {} }) })
    expect(messageIn(await fixture.call('meta', { v: 'x' }))).toContain('the default is deny')
  })

  it('C062 sees names that no tool has', async () => {
    const fixture = await policed()
    expect(messageIn(await fixture.call('ghost'))).toContain('"no-ghosts"')
  })

  it('an approver’s edit meets the rules again', async () => {
    const fixture = await policed()
    fixture.hook('preExecute', (exec, next) => (exec.name === 'need' ? ask() : next()))
    fixture.approver = async () => ({ outcome: 'allowed-once', arguments: { path: '/secret/key' } })
    const result = await fixture.call('need', { path: '/open' }, { agent: fixture.agent('a') })
    expect(messageIn(result)).toContain('"nothing-secret"')
    expect(fixture.stages).not.toContain('body')
  })

  it('goes by the scopes of the agent, nearest first, without one by the global rules', async () => {
    const fixture = await policed({
      scopes: {
        team: [{ name: 'team-no-meta', decision: 'deny', tools: 'meta' }],
        agent: [{ name: 'but-here', decision: 'allow', tools: 'meta' }]
      }
    })
    const team = fixture.agent('team')
    const agent = fixture.agent('agent', team.scope)
    const sibling = fixture.agent('sibling', team.scope)
    const call = (agent?: typeof team) => fixture.call('meta', { v: 'x' }, agent === undefined ? {} : { agent })
    expect(messageIn(await call(team))).toContain('"team-no-meta"')
    expect(messageIn(await call(sibling))).toContain('"team-no-meta"')
    expect(await call(agent)).toMatchObject({ value: 'x' })
    expect(await call()).toMatchObject({ value: 'x' })
  })

  it('a call that a running body makes is a call like any other', async () => {
    const fixture = await policed({ default: 'allow', rules: [{ name: 'no-meta', decision: 'deny', tools: 'meta' }] })
    fixture.boom = async (exec) => {
      const { callId, rootCallId, token: parent, signal } = exec
      const nested = { callId: `${callId}/1`, rootCallId, name: 'meta', arguments: { v: 'x' }, parent, signal }
      return messageIn(await fixture.pipeline.execute(nested)) ?? 'it ran'
    }
    expect(await fixture.call('boom')).toMatchObject({ value: expect.stringContaining('"no-meta"') as string })
  })
})
