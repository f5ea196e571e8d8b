import { JobThread } from '../../threads/job-thread.ts'
import { type Markdown, WebError } from './web.ts'

export interface ConvertRequest {
  html: string
  maxCharacters: number
}

/** `failed`: the page is not one that can be converted. */
export type ConvertAnswer = { type: 'markdown'; text: string; truncated: boolean } | { type: 'failed' }

export interface ConverterOptions {
  /** For one page, in processor time. */
  timeoutMs: number
}

/** Where nested lists or tables blow up, it is the memory that gives out first. */
const heapMb = 256
/** Of the time for one page; waiting for others counts. */
const longestWaitFactor = 2

/** Converts HTML to Markdown in a thread, one page at a time; a page that takes too long, or too much memory, stays HTML. */
export class MarkdownConverter {
  readonly #timeoutMs: number
  readonly #thread: JobThread<ConvertRequest, ConvertAnswer>

  constructor({ timeoutMs }: ConverterOptions) {
    this.#timeoutMs = timeoutMs
    const entry = new URL('./markdown-thread.js', import.meta.url)
    this.#thread = new JobThread({ entry, name: 'markdown', heapMb })
  }

  /** Undefined for a page that cannot be converted. Rejects with WEB_ABORTED: for the signal's abort, and once closed. */
  async convert(
    html: string,
    { maxCharacters, signal }: { maxCharacters: number; signal: AbortSignal }
  ): Promise<Markdown | undefined> {
    const aborted = (): WebError => new WebError('WEB_ABORTED', 'the conversion was aborted')
    if (signal.aborted || this.#thread.isClosed) throw aborted()
    // Behind others' slow pages, HTML at once is worth more than Markdown too late.
    const patience = AbortSignal.timeout(this.#timeoutMs * longestWaitFactor)
    try {
      const request = { html, maxCharacters }
      const answer = await this.#thread.run(request, this.#timeoutMs, AbortSignal.any([signal, patience]))
      return answer.type === 'markdown' ? { text: answer.text, truncated: answer.truncated } : undefined
    } catch {
      if (signal.aborted) throw aborted()
      return undefined
    }
  }

  /** Ends the thread and waits for it. What is being converted stays HTML. */
  async close(): Promise<void> {
    await this.#thread.close()
  }
}
