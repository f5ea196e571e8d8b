import { describe, expect, it } from 'vitest'
import { type SpillOptions, spill } from '../../../plugins/policies/spill.ts'
import type { SpillRequest, SpillStore } from '../../../server/backends/spill/spill.ts'
import { block } from '../../../server/pipeline/decisions.ts'
import type { ContentBlock } from '../../../server/tools/definition.ts'
import { PipelineFixture } from '../../helpers/pipeline-fixture.ts'

const long = Array.from({ length: 100 }, (_, line) => `line ${String(line).padStart(10)}`).join('')

async function spilling(options: Partial<SpillOptions> = {}, before: (fixture: PipelineFixture) => void = () => {}) {
  const fixture = new PipelineFixture({ traced: false })
  before(fixture)
  const saved: SpillRequest[] = []
  const warnings: [string, Record<string, unknown>][] = []
  const store: Pick<SpillStore, 'save'> = {
    save: async (request) => {
      saved.push(request)
      return { locator: '/spill/file.txt', bytes: Buffer.byteLength(request.text), retrievalHint: 'Use read.' }
    }
  }
  await fixture.tools.mount(spill, {
    maxInlineBytes: 200,
    store: store as SpillStore,
    warn: (...warning) => warnings.push(warning),
    ...options
  })
  return { fixture, saved, warnings, agent: fixture.agent('a') }
}

const textIn = (content: readonly ContentBlock[]): string => {
  expect(content).toHaveLength(1)
  return (content[0] as { text: string }).text
}

describe('the spill policy (core.md §27)', () => {
  it('C120 keeps a long text whole in the store, and a preview within the cap [core-27.3] [core-27.4.preview] [core-27.5]', async () => {
    const { fixture, saved, agent } = await spilling()
    expect(long).toHaveLength(1500)
    const result = await fixture.call('echo', { text: long }, { agent })
    expect(saved).toEqual([
      {
        owner: { sessionId: 'session-a' },
        source: { toolName: 'echo', callId: 'c1', label: 'result' },
        suggestedName: 'echo.txt',
        text: long
      }
    ])
    const text = textIn(result.content)
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(200)
    expect(result).toMatchObject({ isError: false, value: long })
    const [preview, notice] = text.split('\n\n') as [string, string]
    expect(notice).toMatch(/^\(.*\)$/)
    expect(notice).toContain('/spill/file.txt')
    expect(notice).toContain('Use read.')
    const omitted = Number(/(\d+) bytes/.exec(notice)?.[1])
    expect(omitted).toBe(1500 - preview.length)
    const [head, tail] = [preview.slice(0, Math.ceil(preview.length / 2)), preview.slice(Math.ceil(preview.length / 2))]
    expect(long.startsWith(head)).toBe(true)
    expect(long.endsWith(tail)).toBe(true)
    expect(head.length - tail.length).toBeLessThanOrEqual(1)
  })

  it('the preview uses all of its budget, the odd byte for the head [core-27.4.budget]', async () => {
    for (const maxInlineBytes of [200, 201]) {
      const { fixture, agent } = await spilling({ maxInlineBytes })
      const text = textIn((await fixture.call('echo', { text: 'h'.repeat(750) + 't'.repeat(750) }, { agent })).content)
      const notice = text.split('\n\n')[1]!
      const room = maxInlineBytes - Buffer.byteLength(notice.replace(/\d+/, '1500')) - 2
      expect(text.split('h').length - 1).toBe(Math.ceil(room / 2))
      expect(text.split('\n\n')[0]!.split('t').length - 1).toBe(Math.floor(room / 2))
    }
  })

  it.each([0, 1, 2, 3])(
    'cuts at boundaries of UTF-8, and counts the bytes that it keeps (cap 200 + %i) [core-27.4.budget]',
    async (more) => {
      const { fixture, agent } = await spilling({ maxInlineBytes: 200 + more })
      const whole = '界😀'.repeat(200)
      const text = textIn((await fixture.call('echo', { text: whole }, { agent })).content)
      expect(text).not.toContain('\uFFFD')
      const [preview, notice] = text.split('\n\n') as [string, string]
      expect(Number(/(\d+) bytes/.exec(notice)?.[1])).toBe(Buffer.byteLength(whole) - Buffer.byteLength(preview))
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(200 + more)
    }
  )

  it('sees what listeners before and after it made of the content, of failures and of several blocks too [core-27.1]', async () => {
    const blocks = [
      { type: 'text', text: long },
      { type: 'text', text: 'end' }
    ]
    const replacing = (fixture: PipelineFixture) =>
      void fixture.hook('postExecute', () => ({ kind: 'accept', content: blocks }))
    for (const isBefore of [true, false]) {
      const { fixture, saved, agent } = await spilling({}, isBefore ? replacing : undefined)
      if (!isBefore) replacing(fixture)
      const result = await fixture.call('boom', {}, { agent })
      expect(result).toMatchObject({ isError: true, error: { message: 'exploded' } })
      expect(saved[0]?.text).toBe(`${long}end`)
      expect(textIn(result.content)).toMatch(/end\n\n\(/)
    }
  })

  it('counts bytes, not characters, and leaves what fits exactly [core-27.1]', async () => {
    const { fixture, saved, agent } = await spilling()
    const fits = 'é'.repeat(100)
    expect(textIn((await fixture.call('echo', { text: fits }, { agent })).content)).toBe(fits)
    expect(saved).toEqual([])
    await fixture.call('echo', { text: `${fits}x` }, { agent })
    expect(saved).toHaveLength(1)
  })

  it('keeps contexts and content of other decisions [core-27.5]', async () => {
    const { fixture, agent } = await spilling()
    const context = { id: 'x', role: 'user' as const, content: [], source: { kind: 'user' as const } }
    fixture.hook('postExecute', () => ({ kind: 'accept', additionalContexts: [context] }))
    const result = await fixture.call('meta', { v: long }, { agent })
    expect(result).toMatchObject({ value: long, meta: { projected: long }, additionalContexts: [context] })
    expect(textIn(result.content).length).toBeLessThanOrEqual(200)
  })

  interface Unchanged {
    options?: Partial<SpillOptions>
    setUp?: (fixture: PipelineFixture) => void
    name?: string
    more?: object
    warns?: true
    saves?: true
    content?: ContentBlock[]
  }
  it.each<[string, Unchanged]>([
    ['the policy is off [core-27.cap]', { options: { maxInlineBytes: undefined as never } }],
    [
      'a block is no text [core-27.1]',
      {
        setUp: (f) =>
          f.hook('postExecute', () => ({ kind: 'accept', content: [{ type: 'text', text: long }, { type: 'image' }] })),
        content: [{ type: 'text', text: long }, { type: 'image' }]
      }
    ],
    [
      'a text block has no text',
      {
        setUp: (f) => f.hook('postExecute', () => ({ kind: 'accept', content: [{ type: 'text', text: 1 }] })),
        content: [{ type: 'text', text: 1 }] as never
      }
    ],
    ['the tool is read [core-27.1]', { name: 'read' }],
    ['the call is nested [core-27.1] [core-20]', { more: { parent: Symbol('outer') } }],
    [
      'the decision is a block [core-27.1]',
      { setUp: (f) => f.hook('postExecute', () => block([{ type: 'text', text: long }])) }
    ],
    [
      'the decision replaces the value [core-27.1]',
      { setUp: (f) => f.hook('postExecute', () => ({ kind: 'accept', value: long })) }
    ],
    ['there is no store [core-27.2]', { options: { store: undefined as never }, warns: true }],
    [
      'the store fails [core-27.2]',
      { options: { store: { save: () => Promise.reject(new Error('disk full')) } as never }, warns: true }
    ],
    [
      'the store throws',
      {
        options: {
          store: {
            save: () => {
              throw new Error('disk full')
            }
          } as never
        },
        warns: true
      }
    ],
    ['there is no session [core-27.2]', { more: { agent: undefined }, warns: true }],
    ['the cap is too small for the notice [core-27.4.fits]', { options: { maxInlineBytes: 20 }, saves: true }],
    ['the cap is nothing', { options: { maxInlineBytes: 0 }, saves: true }]
  ])(
    'C120 changes nothing when %s',
    async (_when, { options = {}, setUp, name = 'echo', more = {}, warns, saves, content }) => {
      const { fixture, saved, warnings, agent } = await spilling(options)
      if (name === 'read') fixture.register({ ...fixture.registry.lookup('echo')!, name })
      setUp?.(fixture)
      const result = await fixture.call(name, { text: long }, { agent, ...more })
      expect(result.content).toEqual(content ?? [{ type: 'text', text: long }])
      expect(warnings).toHaveLength(warns ? 1 : 0)
      expect(saved).toHaveLength(saves ? 1 : 0)
      if (warns) expect(warnings[0]?.[1]).toMatchObject({ tool: 'echo', callId: 'c1', error: expect.any(String) })
    }
  )

  it('a cap with room for the notice alone leaves the notice [core-27.4.notice] [core-27.4.fits]', async () => {
    const { fixture, agent } = await spilling()
    const full = textIn((await fixture.call('echo', { text: long }, { agent })).content)
    const bare = full.split('\n\n')[1]!.replace(/\d+/, '1500')
    const small = await spilling({ maxInlineBytes: bare.length })
    expect(textIn((await small.fixture.call('echo', { text: long }, { agent: small.agent })).content)).toBe(bare)
    const tooSmall = await spilling({ maxInlineBytes: bare.length - 1 })
    const { content } = await tooSmall.fixture.call('echo', { text: long }, { agent: tooSmall.agent })
    expect(textIn(content)).toBe(long)
  })

  it('does not hide that a decision is none', async () => {
    const { fixture, agent } = await spilling()
    fixture.hook('postExecute', () => undefined as never)
    expect(await fixture.call('echo', {}, { agent })).toMatchObject({ isError: true })
  })

  it.each([-1, 1.5, Number.NaN, Infinity, '5' as never])(
    'refuses a cap of %s at load [core-27.cap] [core-30.plain-error]',
    async (maxInlineBytes) => {
      await expect(spilling({ maxInlineBytes })).rejects.toThrow('maxInlineBytes')
    }
  )

  it('caps the logged copy of a program’s calls too, `read` included [core-27.7]', async () => {
    const { fixture, saved, agent } = await spilling()
    const entry = {
      agent,
      rootCallId: 'c',
      parentCallId: 'c',
      subCallId: 'c:code:1',
      name: 'read',
      arguments: {},
      isError: false,
      content: [{ type: 'text', text: long }]
    }
    const content = await fixture.pipeline.dispatchLogContent(entry)
    expect(textIn(content).length).toBeLessThanOrEqual(200)
    expect(saved).toMatchObject([{ source: { toolName: 'read', callId: 'c:code:1', label: 'dispatch' } }])
    const short = [{ type: 'text', text: 'short' }]
    expect(await fixture.pipeline.dispatchLogContent({ ...entry, content: short })).toEqual(short)
    const { agent: _agent, ...orphan } = entry
    expect(await fixture.pipeline.dispatchLogContent(orphan)).toEqual(entry.content)
  })
})
