import { expect, it, onTestFinished } from 'vitest'
import { ClientExecutor } from '../../server/executors/client-executor.ts'
import { Provider, type ProviderLink } from '../../server/executors/provider.ts'
import { wireTool } from '../../server/executors/wire-tool.ts'
import { WireSchemas } from '../../server/schema/ajv-validator.ts'
import { CallFixture } from '../helpers/call-fixture.ts'
import { until } from '../helpers/until.ts'

it('a provider that is not there, or has enough to do, is a code in the result [core-30.executors]', async () => {
  const schemas = new WireSchemas()
  onTestFinished(() => schemas.close())
  const fixture = new CallFixture()
  const limits = { graceMs: 60_000, maxPendingCalls: 1, maxFrameBytes: 10_000 }
  const provider = new Provider({ id: 'p', scope: 'global', owner: 't' }, limits)
  const fields = {
    name: 'remote',
    description: 'Runs elsewhere.',
    parameters: { type: 'object' },
    concurrency: 'parallel'
  } as const
  fixture.tools.register(await wireTool(fields, new ClientExecutor(provider), schemas))
  const session = await fixture.open()
  const invoke = (callId: string) => fixture.invocations.invoke({ session, callId, name: 'remote' })
  const failed = (code: string) => ({
    isError: true,
    error: { info: { name: 'ProviderError', code }, effect: 'none', retryable: true }
  })

  expect(await invoke('c1')).toMatchObject(failed('PROVIDER_UNAVAILABLE'))
  const link: ProviderLink = {
    closed: new AbortController().signal,
    isBackedUp: false,
    sendText: () => undefined,
    whenWritable: () => Promise.resolve()
  }
  provider.attach(link)
  const first = invoke('c2')
  await until(() => provider.pending.length === 1)
  expect(await invoke('c3')).toMatchObject(failed('OVERLOADED'))
  provider.answer(link, provider.pending[0]!, { value: 1 })
  expect(await first).toMatchObject({ isError: false, value: 1 })
})
