import type { SpillStore } from '../../server/backends/spill/spill.ts'
import { messageOf } from '../../server/pipeline/result.ts'
import type { ContentBlock } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'

export interface SpillOptions {
  /** Text of a result beyond these UTF-8 bytes goes to the store. Absent: the policy is off. */
  maxInlineBytes?: number
  /** Absent: results stay as they are, with a warning. */
  store?: SpillStore
  warn: (message: string, details: Record<string, unknown>) => void
}

/** A text to be kept, and who it belongs to. */
interface Source {
  sessionId: string | undefined
  toolName: string
  callId: string
  label: 'result' | 'dispatch'
}

/**
 * Keeps over-long results whole in the spill store and leaves a preview in their place (core.md §27). Only content changes, and
 * nothing ever becomes an error by it. Throws at load for a bad cap.
 */
export const spill = definePlugin({ name: 'spill' }, (tools, _services, options: SpillOptions) => {
  const { maxInlineBytes: cap, store, warn } = options
  if (cap === undefined) return
  if (!Number.isInteger(cap) || cap < 0) throw new Error('spill: maxInlineBytes must be a non-negative integer')

  /** The text of content that is too long, if it is nothing but text. */
  function overlong(content: readonly ContentBlock[]): string | undefined {
    const text = textOf(content)
    return text === undefined || Buffer.byteLength(text) <= cap! ? undefined : text
  }

  /** The one block to put in its place, or undefined to leave it. */
  async function shortened(text: string, source: Source): Promise<ContentBlock[] | undefined> {
    const { sessionId, ...origin } = source
    try {
      if (sessionId === undefined) throw new Error('the call has no session to own it')
      if (store === undefined) throw new Error('there is no spill store')
      const saved = await store.save({
        owner: { sessionId },
        source: origin,
        suggestedName: `${origin.toolName}.txt`,
        text
      })
      const short = previewOf(Buffer.from(text), cap!, (omitted) => notice(omitted, saved.locator, saved.retrievalHint))
      return short === undefined ? undefined : [{ type: 'text', text: short }]
    } catch (error) {
      warn('a long result was not spilled', { tool: origin.toolName, callId: origin.callId, error: messageOf(error) })
      return undefined
    }
  }

  // Outermost, so that it sees what all the others made of the content.
  tools.addHook(
    'postExecute',
    async (exec, result, next) => {
      const decision = await next()
      const isExempt = exec.parent !== undefined || exec.name === 'read'
      if (isExempt || decision.kind !== 'accept' || Object.hasOwn(decision, 'value')) return decision
      const text = overlong(decision.content ?? result.content)
      if (text === undefined) return decision
      const { name: toolName, callId, agent } = exec
      const content = await shortened(text, { sessionId: agent?.id, toolName, callId, label: 'result' })
      return content === undefined ? decision : { ...decision, content }
    },
    { prepend: true }
  )

  tools.addHook(
    'dispatchLog',
    async ({ agent, name: toolName, subCallId: callId }, next) => {
      const content = await next()
      const text = overlong(content)
      if (text === undefined) return content
      return (await shortened(text, { sessionId: agent?.id, toolName, callId, label: 'dispatch' })) ?? content
    },
    { prepend: true }
  )
})

/** The text of content that is nothing but text. */
function textOf(content: readonly ContentBlock[]): string | undefined {
  const texts = content.map((block) => (block.type === 'text' ? block['text'] : undefined))
  return texts.every((text) => typeof text === 'string') ? texts.join('') : undefined
}

const notice = (omitted: number, locator: string, hint: string): string =>
  `(${omitted} bytes omitted. Full text: ${locator}. ${hint})`

/**
 * Head and tail with the notice, within the cap; undefined when not even the notice fits. The notice is reserved at its longest,
 * which is with all bytes omitted (core.md §27.4).
 */
function previewOf(text: Buffer, cap: number, noticeFor: (omitted: number) => string): string | undefined {
  const room = Math.max(0, cap - Buffer.byteLength(noticeFor(text.length)) - 2)
  const headEnd = boundaryBefore(text, Math.ceil(room / 2))
  const tailStart = boundaryAfter(text, text.length - Math.floor(room / 2))
  const kept = text.toString('utf8', 0, headEnd) + text.toString('utf8', tailStart)
  const last = noticeFor(tailStart - headEnd)
  const replacement = kept === '' ? last : `${kept}\n\n${last}`
  return Buffer.byteLength(replacement) <= cap ? replacement : undefined
}

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80

function boundaryBefore(text: Buffer, at: number): number {
  let end = at
  while (isContinuation(text[end])) end -= 1
  return end
}

function boundaryAfter(text: Buffer, at: number): number {
  let start = at
  while (isContinuation(text[start])) start += 1
  return start
}
