import { expect, it } from 'vitest'
import type { ToolResult } from '../../server/pipeline/result.ts'
import { PipelineFixture, contextFrom } from '../helpers/pipeline-fixture.ts'

const unprintable = {
  toString() {
    throw new Error('no')
  },
  get message() {
    throw new Error('no')
  }
}

it('C089 observers are told once each, whatever the others do; failures are logged [core-15.1.once] [core-15.2]', async () => {
  const fixture = new PipelineFixture({ traced: false })
  const told: ToolResult[] = []
  fixture.hook('onResult', (_exec, result) => told.push(result))
  fixture.hook('onResult', () => {
    throw unprintable
  })
  fixture.hook('onResult', () => Promise.reject(new Error('later')))
  fixture.hook('onResult', () =>
    // oxlint-disable-next-line no-thenable
    Object.defineProperty({}, 'then', {
      get() {
        throw new Error('hostile')
      }
    })
  )
  fixture.hook('onResult', (_exec, result) => told.push(result))
  const result = await fixture.call('echo')
  await new Promise((resolve) => setImmediate(resolve))
  expect(told).toEqual([result, result])
  expect(told.every((seen) => seen === result)).toBe(true)
  expect(fixture.warnings.map(({ details }) => details)).toEqual([
    { tool: 'echo', callId: 'c1', error: expect.any(String) },
    { tool: 'echo', callId: 'c1', error: 'hostile' },
    { tool: 'echo', callId: 'c1', error: 'later' }
  ])
})

it('an execution is one object in all stages, so that it can key a WeakMap [core-15.1.same]', async () => {
  const fixture = new PipelineFixture({ traced: false })
  const seen = new Set<object>()
  fixture.hook('preExecute', (exec, next) => (seen.add(exec), next()))
  fixture.guard((exec) => (seen.add(exec), undefined))
  fixture.hook('execute', (exec, next) => (seen.add(exec), next()))
  fixture.boom = (exec) => (seen.add(exec), 1)
  fixture.hook('postExecute', (exec, _result, next) => (seen.add(exec), next()))
  fixture.finalizer = (exec) => (seen.add(exec), undefined)
  fixture.hook('onResult', (exec) => seen.add(exec))
  await fixture.call('boom')
  expect(seen.size).toBe(1)
})

it('step observers are told per scope, and contained', () => {
  const fixture = new PipelineFixture({ traced: false })
  const agent = fixture.agent('a')
  const other = fixture.agent('b')
  const told: unknown[] = []
  fixture.hook('onStep', () => {
    throw new Error('deaf')
  })
  fixture.hook('onStep', (...args) => told.push(args), { scope: agent.scope })
  const messages = [contextFrom('x')]
  fixture.pipeline.stepStarting(agent, messages)
  fixture.pipeline.stepStarting(other, messages)
  expect(told).toEqual([[agent, messages]])
  expect(fixture.warnings).toMatchObject([
    { details: { session: 'session-a', error: 'deaf' } },
    { details: { session: 'session-b', error: 'deaf' } }
  ])
})
