import { AbortError } from '../../server/errors.ts'
import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { Jobs, JobOutcome, JobWork } from '../../server/backends/jobs/jobs.ts'
import type { SendResult, Terminals, TerminalSend } from '../../server/backends/terminals/terminals.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import { backgroundParameters, isForBackground } from './command-background.ts'
import { agentOf, finalizeWithin, sessionId, terminalStatus } from './terminal-parts.ts'
import { lastBytes, renderSent, statusText, visibleText } from './terminal-text.ts'

const inputPlaceholder = '(input)'

/** The tool `terminal_send` (backends.md §5.3). Without `jobs` nothing is sent in the background. */
export function terminalSend(terminals: Terminals, jobs: Jobs | undefined, maxResultBytes: number): ToolDefinition {
  return defineTool({
    name: 'terminal_send',
    description:
      'Types text into a terminal and presses Enter, then returns what the terminal shows until it waits for input again. ' +
      '[wait: stdin_read]: it waits for input. [wait: inferred_idle]: it was silent for a while and may still be busy. ' +
      '[wait: timeout]: it is still busy; read it later with terminal_read. [wait: session_exit]: its shell has ended. ' +
      'One send at a time per terminal.',
    parameters: {
      sessionId,
      text: { type: 'string', required: true, description: 'What is typed. Empty: just Enter.' },
      submit: {
        type: 'boolean',
        description:
          'Press Enter after it; true unless given. With false, control characters and parts of a line can be typed.'
      },
      ...backgroundParameters(jobs)
    },
    output: {
      schema: {
        oneOf: [
          {
            type: 'object',
            additionalProperties: false,
            properties: {
              kind: { type: 'string', const: 'foreground', required: true },
              viewport: { type: 'string', required: true },
              waitReason: {
                type: 'string',
                enum: ['stdin_read', 'inferred_idle', 'timeout', 'session_exit'],
                required: true
              },
              sessionStatus: { ...terminalStatus, required: true },
              truncated: { type: 'boolean', required: true }
            }
          },
          {
            type: 'object',
            additionalProperties: false,
            properties: {
              kind: { type: 'string', const: 'background', required: true },
              jobId: { type: 'string', required: true }
            }
          }
        ]
      },
      render: (_args, value) =>
        text(
          value.kind === 'background'
            ? `started background job ${value.jobId}`
            : renderSent(value as SendResult, maxResultBytes)
        ),
      presentationMeta: (_args, value) => {
        if (value.kind === 'background') return { jobId: value.jobId }
        const { viewport, waitReason, sessionStatus, truncated } = value
        const kept = lastBytes(viewport, maxResultBytes)
        return { viewport: kept, waitReason, sessionStatus, truncated: truncated || kept !== viewport }
      }
    },
    async execute(args, exec) {
      const { signal } = exec
      const input = (args.submit ?? true) ? `${args.text}\r` : args.text
      if (isForBackground(args)) {
        if (jobs === undefined) throw new Error('nothing can be sent in the background here')
        if (signal.aborted) throw new AbortError()
        const owner = agentOf(exec)
        const { id } = jobs.start({
          kind: 'pty-send',
          label: `${args.sessionId}: ${visibleText(args.text) || inputPlaceholder}`,
          owner,
          outputLimitBytes: maxResultBytes,
          run: () => sendWork(terminals.send(owner, args.sessionId, input))
        })
        return { kind: 'background' as const, jobId: id }
      }
      if (signal.aborted) throw new AbortError()
      const send = terminals.send(agentOf(exec), args.sessionId, input)
      const onAbort = (): void => send.cancel()
      signal.addEventListener('abort', onAbort, { once: true })
      try {
        // A cancelled send has a value too: the pipeline turns it into ABORTED or TOOL_TIMEOUT, whichever it was.
        const { viewport, waitReason, sessionStatus, truncated } = await send.done
        return { kind: 'foreground' as const, viewport, waitReason, sessionStatus, truncated }
      } finally {
        signal.removeEventListener('abort', onAbort)
      }
    },
    finalizeContent: finalizeWithin(maxResultBytes),
    presentCall(args) {
      const title = visibleText(args.text) || inputPlaceholder
      const description = `terminal ${args.sessionId}`
      if (!isForBackground(args)) return { card: 'terminal', title, description }
      return { card: 'generic', title, kind: 'execute', rawInput: args.text, content: text(description) }
    },
    presentResult(args, { content, isError }) {
      const [block, ...more] = content
      if (block?.type !== 'text' || typeof block['text'] !== 'string' || more.length > 0) return undefined
      if (isError || isForBackground(args)) return { card: 'generic', content: text(block['text']) }
      return { card: 'terminal', output: block['text'] }
    }
  })
}

/** A send as a job's work: it has ended when the terminal takes the next one. */
function sendWork(send: TerminalSend): JobWork {
  /** What nobody had read at the end, kept as the terminal may be closed by then. */
  let rest: string | undefined
  const readDelta = async (): Promise<string> => {
    if (rest !== undefined) return takeRest()
    const { text, lossy } = await send.readOutput()
    return `${lossy ? '[output truncated]\n' : ''}${text}`
  }
  const takeRest = (): string => {
    const taken = rest ?? ''
    rest = ''
    return taken
  }
  const settle = async (): Promise<JobOutcome> => {
    const result = await send.done
    await send.released
    rest = await readDelta().catch(() => '')
    if (result.isCancelled) return { status: 'killed' }
    const { waitReason, sessionStatus } = result
    const detail = waitReason === 'session_exit' ? `session ${statusText(sessionStatus)}` : `wait: ${waitReason}`
    return { status: 'completed', detail }
  }
  return { done: settle(), cancel: () => send.cancel(), readDelta }
}
