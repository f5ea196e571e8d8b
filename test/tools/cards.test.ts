import { describe, expect, it } from 'vitest'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import { callCard, cardOf, type RecordedCall, resultCard } from '../../server/tools/cards.ts'
import type { CallCard, ResultCard, ToolDefinition } from '../../server/tools/definition.ts'
import { bareTool } from '../helpers/bare-tool.ts'

const bash = defineTool({
  name: 'bash',
  description: 'runs a command',
  parameters: { command: { type: 'string', required: true } },
  output: { schema: { type: 'string' }, render: () => [] },
  execute: () => '',
  presentCall: ({ command }) => ({ card: 'terminal', title: command }),
  presentResult: ({ command }, { content, isError, meta }) => ({
    card: 'terminal',
    title: command,
    output: `${content.length} ${isError} ${JSON.stringify(meta)}`,
    exitCode: 0
  })
})
const settled = { content: [], isError: false }
const showingCall = (card: unknown) => callCard(bareTool('x', { presentCall: () => card as CallCard }), '{}')
const showingResult = (card: unknown) =>
  resultCard(bareTool('x', { presentResult: () => card as ResultCard }), '{}', settled)

describe('cardOf (core.md §28, api.md §4)', () => {
  const lookup = (name: string): ToolDefinition | undefined => (name === 'bash' ? bash : undefined)
  const calls = new Map<string, RecordedCall>([['c1', { name: 'bash', arguments: '{"command":"ls"}' }]])
  const callOf = (callId: string) => calls.get(callId)
  const view = (type: string, data: JsonValue) => cardOf({ type, data }, lookup, callOf)
  const result = (block: JsonValue, more = {}) => ({ turn: 1, message: { content: [block] }, ...more })

  it('makes the card of a tool/call from the raw argument string', () => {
    expect(view('tool/call', { name: 'bash', callId: 'c1', arguments: '{"command":"ls"}' })).toEqual({
      card: 'terminal',
      title: 'ls'
    })
  })

  it('makes the card of a tool/result from its recorded call and stored parts [core-28.replay]', () => {
    const block = { type: 'tool-result', toolCallId: 'c1', content: [{ type: 'text', text: 'a' }], isError: true }
    expect(view('tool/result', result(block, { meta: null }))).toEqual({
      card: 'terminal',
      title: 'ls',
      output: '1 true null',
      exitCode: 0
    })
    expect(view('tool/result', result({ ...block, isError: false }))).toMatchObject({ output: '1 false undefined' })
  })

  it('C027 is the generic fallback for arguments that do not fit, in the call and on replay', () => {
    for (const raw of ['', '{"command":7}', 'not json', '[]', '{"command":-0}']) {
      expect(view('tool/call', { name: 'bash', arguments: raw })).toBeUndefined()
      calls.set('bad', { name: 'bash', arguments: raw })
      expect(view('tool/result', result({ toolCallId: 'bad', content: [], isError: false }))).toBeUndefined()
    }
  })

  it.each<[string, string, JsonValue]>([
    ['another event', 'user/message', { name: 'bash', arguments: '{"command":"ls"}' }],
    ['an unknown tool', 'tool/call', { name: 'ghost', arguments: '{}' }],
    ['a name of Object.prototype', 'tool/call', { name: 'constructor', arguments: '{}' }],
    ['arguments that are no string', 'tool/call', { name: 'bash', arguments: { command: 'ls' } }],
    ['a name that is no string', 'tool/call', { name: 7, arguments: '{}' }],
    ['no data', 'tool/call', null],
    ['an unknown call', 'tool/result', { message: { content: [{ toolCallId: 'nope' }] } }],
    ['no callId', 'tool/result', { message: { content: [{}] } }],
    ['no blocks', 'tool/result', { message: { content: [] } }],
    ['content that is no list', 'tool/result', { message: { content: { 0: { toolCallId: 'c1' } } } }],
    ['no message', 'tool/result', { message: 'damaged' }]
  ])('is undefined for %s', (_what, type, data) => {
    expect(view(type, data)).toBeUndefined()
  })

  it('reads damaged content as none', () => {
    expect(view('tool/result', result({ toolCallId: 'c1', content: 'damaged' }))).toMatchObject({
      output: '0 false undefined'
    })
  })
})

describe('soft failure', () => {
  it('is undefined without a presenter or a card', () => {
    expect(callCard(undefined, '{}')).toBeUndefined()
    expect(callCard(bareTool('x'), '{}')).toBeUndefined()
    expect(resultCard(bareTool('x'), '{}', settled)).toBeUndefined()
    expect(showingCall(undefined)).toBeUndefined()
    expect(showingResult(undefined)).toBeUndefined()
  })

  it('contains what a presenter throws, its rejection too', async () => {
    const throwing = () => {
      throw new Error('damaged meta')
    }
    expect(callCard(bareTool('x', { presentCall: throwing }), '{}')).toBeUndefined()
    expect(resultCard(bareTool('x', { presentResult: throwing }), '{}', settled)).toBeUndefined()
    const unhandled: unknown[] = []
    const hear = (reason: unknown) => unhandled.push(reason)
    process.on('unhandledRejection', hear)
    expect(showingCall(Promise.reject(new Error('async presenter')))).toBeUndefined()
    await new Promise((resolve) => setImmediate(resolve))
    process.off('unhandledRejection', hear)
    expect(unhandled).toEqual([])
  })

  it('gives empty arguments for an empty string, as the call had them', () => {
    const tool = bareTool('x', { presentCall: (args) => ({ card: 'generic', title: JSON.stringify(args) }) })
    expect(callCard(tool, '')).toEqual({ card: 'generic', title: '{}' })
    expect(callCard(tool, 'not json')).toEqual({ card: 'generic', title: '"not json"' })
  })
})

describe('vocabulary (backends.md §1.1) [core-28.cards]', () => {
  it.each<CallCard>([
    { card: 'generic', title: 't' },
    {
      card: 'generic',
      title: 't',
      kind: 'execute',
      rawInput: [1, null],
      content: [{ type: 'custom', data: 1 }],
      locations: [{ path: 'a', line: 3 }, { path: 'b' }]
    },
    { card: 'terminal', title: 'ls', description: 'lists', cwd: 'src' },
    { card: 'diff', title: 'd', diffs: [{ path: 'a', oldText: null, newText: '' }], locations: [] },
    { card: 'diff', title: 'd', diffs: [{ path: 'a', oldText: 'x', newText: 'y' }] }
  ])('takes the call card %j', (card) => {
    expect(showingCall(card)).toEqual(card)
  })

  it.each<ResultCard>([
    { card: 'generic' },
    { card: 'generic', title: 't', content: [{ type: 'text', text: 'x' }] },
    { card: 'terminal', output: 'o', exitCode: 3 },
    { card: 'terminal', signal: 'SIGKILL' },
    { card: 'diff', diffs: [] },
    {
      card: 'search',
      shape: 'matches',
      files: [{ path: 'a', matches: [{ lineNumber: 1, line: 'x' }] }],
      truncated: false,
      total: 1
    },
    { card: 'search', shape: 'paths', title: 't', paths: ['a'], truncated: true, total: 9 },
    { card: 'read', path: 'a', offset: 1, lines: [{ number: 1, text: 'x' }], totalLines: 1, lang: 'ts', content: 'x' },
    {
      card: 'web',
      kind: 'search',
      sources: [{ url: 'u', title: 't', snippet: 's', publishedAt: 'p' }],
      truncated: false,
      answer: 'a'
    },
    { card: 'web', kind: 'fetch', url: 'u', statusCode: 200, truncated: false }
  ])('takes the result card %j', (card) => {
    expect(showingResult(card)).toEqual(card)
  })

  it.each<[string, unknown]>([
    ['no title', { card: 'generic' }],
    ['an unknown card', { card: 'hologram', title: 't' }],
    ['a card of Object.prototype', { card: 'constructor', title: 't' }],
    ['a result-only card', { card: 'read', path: 'a', offset: 0, lines: [], totalLines: 0 }],
    ['an unknown kind', { card: 'generic', title: 't', kind: 'dance' }],
    ['a title that is no string', { card: 'terminal', title: 7 }],
    ['diffs that are no list', { card: 'diff', title: 't', diffs: {} }],
    ['a diff without text', { card: 'diff', title: 't', diffs: [{ path: 'a', oldText: null }] }],
    ['what is not lossless', { card: 'generic', title: 't', rawInput: () => {} }],
    ['a list', []],
    ['a string', 'generic'],
    ['null', null]
  ])('falls back for a call card with %s', (_what, card) => {
    expect(showingCall(card)).toBeUndefined()
  })

  it.each<[string, unknown]>([
    ['both an exit code and a signal', { card: 'terminal', exitCode: 1, signal: 'SIGTERM' }],
    ['an unknown shape', { card: 'search', shape: 'spiral', truncated: false, total: 0 }],
    ['no shape', { card: 'search', paths: [], truncated: false, total: 0 }],
    ['its key as its card', { card: 'search/paths', paths: [], truncated: false, total: 0 }],
    ['an unknown web kind', { card: 'web', kind: 'spider', url: 'u', statusCode: 200, truncated: false }],
    ['a fractional exit code', { card: 'terminal', exitCode: 0.5 }]
  ])('falls back for a result card with %s', (_what, card) => {
    expect(showingResult(card)).toBeUndefined()
  })
})
