import { RequestError } from '../../errors.ts'
import { JobThread } from '../../threads/job-thread.ts'
import type { Arguments, ImportAnswer, ImportRequest, OpenedDocument, Part, ReadOperation } from './import-job.ts'

/** Processor time to read a document, and to make one operation of it into schemas. */
const openBudgetMs = 20_000
const operationBudgetMs = 2_000
/** A thread whose heap is full while it parses takes the whole process down; parsing was seen to need 30 bytes for a character. */
const leastHeapMb = 512
const charactersPerHeapMb = 16 * 1_024

type Open = Omit<Extract<ImportRequest, { type: 'open' }>, 'type'>

/**
 * One document, in a thread of its own: what others wrote may take for ever to read, or more memory than there is. Everything here rejects
 * with `INVALID_DEFINITION` then, and when the signal aborts.
 */
export class DocumentThread {
  readonly #thread: JobThread<ImportRequest, ImportAnswer>
  readonly #signal: AbortSignal

  /** `characters` are the text's. */
  constructor(characters: number, signal: AbortSignal) {
    this.#thread = new JobThread({
      entry: new URL('./import-thread.js', import.meta.url),
      name: 'imports',
      heapMb: leastHeapMb + Math.ceil(characters / charactersPerHeapMb)
    })
    this.#signal = signal
  }

  async open(given: Open): Promise<OpenedDocument> {
    return (await this.#run({ type: 'open', ...given }, openBudgetMs)) as OpenedDocument
  }

  async operation(index: number): Promise<ReadOperation> {
    return (await this.#run({ type: 'operation', index }, operationBudgetMs)) as ReadOperation
  }

  async plainArguments(index: number): Promise<Part<Arguments>> {
    const answer = await this.#run({ type: 'plain-arguments', index }, operationBudgetMs)
    return (answer as Extract<ImportAnswer, { type: 'plain-arguments' }>).arguments
  }

  close(): Promise<void> {
    return this.#thread.close()
  }

  async #run(request: ImportRequest, budgetMs: number): Promise<ImportAnswer> {
    const answer = await this.#thread.run(request, budgetMs, this.#signal).catch((error: unknown) => {
      if (this.#signal.aborted) throw invalid('The schemas of the document take too long to check. Use "include".')
      throw error
    })
    if (answer.type === 'refused') throw invalid(answer.message)
    if (answer.type === 'late') throw invalid('The document takes too long to read.')
    if (answer.type === 'died') throw invalid('The document takes too much memory to read.')
    return answer as ImportAnswer
  }
}

const invalid = (message: string): RequestError => new RequestError('INVALID_DEFINITION', message)
