import { AbortError } from '../../server/errors.ts'
import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { Jobs } from '../../server/backends/jobs/jobs.ts'
import type { Execution } from '../../server/pipeline/execution.ts'
import type { ToolResult } from '../../server/pipeline/result.ts'
import type { ContentBlock, ToolDefinition } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'
import { capText, renderList, renderOutput, statusLine } from './jobs-text.ts'

const job = {
  type: 'object',
  additionalProperties: false,
  properties: {
    id: { type: 'string', required: true },
    kind: { type: 'string', required: true },
    label: { type: 'string', required: true, description: 'What it does: of a command, the command.' },
    status: {
      type: 'string',
      enum: ['running', 'stopping', 'completed', 'killed', 'failed', 'lost'],
      required: true,
      description: '`lost`: the server that ran it has ended.'
    },
    detail: { type: 'string', description: 'How it ended.' },
    startedAt: { type: 'integer', required: true, description: 'Epoch milliseconds.' },
    finishedAt: { type: 'integer', description: 'Epoch milliseconds.' }
  }
} as const

const jobId = { type: 'string', required: true, description: 'The id that the start returned, as bash-1.' } as const

/** How long `job_output` waits, in milliseconds: unless told, and at most. */
export interface JobWaits {
  waitTimeoutMs: number
  maxWaitTimeoutMs: number
}

/** The tools `job_output`, `job_list` and `job_kill` (backends.md §4.3). */
export function jobTools(jobs: Jobs, { waitTimeoutMs, maxWaitTimeoutMs }: JobWaits): ToolDefinition[] {
  if (waitTimeoutMs > maxWaitTimeoutMs) throw new RangeError('waitTimeoutMs is above maxWaitTimeoutMs')
  /** Whatever the result came from, it keeps to the producer's limit. */
  const finalizeContent = (exec: Execution, { content }: ToolResult): ContentBlock[] | undefined => {
    const id = jobIdOf(exec.arguments)
    const limit = id === undefined ? undefined : jobs.outputLimitOf(id, exec.agent)
    const [block, ...more] = content
    if (limit === undefined || block?.type !== 'text' || typeof block['text'] !== 'string' || more.length > 0) {
      return undefined
    }
    const capped = capText(block['text'], limit)
    return capped === undefined ? undefined : text(capped)
  }

  return [
    defineTool({
      name: 'job_output',
      description:
        'Returns what a background job has printed since the last time, and its status. With wait it first waits for the job to end; ' +
        'if that takes longer than timeout_ms the job goes on and its status is still running.',
      parameters: {
        job_id: jobId,
        wait: { type: 'boolean', description: 'Wait for the job to end first.' },
        timeout_ms: {
          type: 'number',
          description: `With wait: how long at most, in milliseconds; ${waitTimeoutMs} unless given, never more than ${maxWaitTimeoutMs}.`
        }
      },
      output: {
        schema: {
          type: 'object',
          additionalProperties: false,
          properties: { text: { type: 'string', required: true }, job: { ...job, required: true } }
        },
        render: (_args, value) => text(renderOutput(value.text, value.job))
      },
      async execute({ job_id: id, wait = false, timeout_ms: timeoutMs = waitTimeoutMs }, { agent, signal }) {
        assertId(id)
        try {
          if (wait) await jobs.wait(id, agent, { timeoutMs: Math.min(timeoutMs, maxWaitTimeoutMs), signal })
          return await jobs.read(id, agent, signal)
        } catch (error) {
          throw signal.aborted ? new AbortError() : error
        }
      },
      finalizeContent,
      presentCall: ({ job_id: id }) => ({ card: 'generic', title: `Output of ${id}`, kind: 'read', rawInput: id })
    }),
    defineTool({
      name: 'job_list',
      description: 'Lists the background jobs of this session, those included that have ended.',
      parameters: {},
      output: { schema: { type: 'array', items: job }, render: (_args, value) => text(renderList(value)) },
      execute: (_args, { agent }) => jobs.list(agent),
      presentCall: () => ({ card: 'generic', title: 'Background jobs', kind: 'read' })
    }),
    defineTool({
      name: 'job_kill',
      description: 'Tells a background job to end, and returns at once; job_output with wait tells when it has.',
      parameters: { job_id: jobId, reason: { type: 'string', description: 'Why, in a few words.' } },
      output: {
        schema: {
          type: 'object',
          additionalProperties: false,
          properties: {
            outcome: { type: 'string', enum: ['cancellation-requested', 'already-finished'], required: true },
            job: { ...job, required: true }
          }
        },
        render: (_args, { outcome, job: { id, ...rest } }) =>
          text(
            outcome === 'already-finished'
              ? `job ${id} had ended already\n${statusLine(rest)}`
              : `job ${id} was told to end`
          )
      },
      execute({ job_id: id, reason }, { agent }) {
        assertId(id)
        return jobs.kill(id, agent, reason)
      },
      finalizeContent,
      presentCall: ({ job_id: id }) => ({ card: 'generic', title: `End ${id}`, kind: 'execute', rawInput: id })
    })
  ]
}

function assertId(id: string): void {
  if (id === '') throw new Error('job_id is empty')
}

/** Also of arguments that are not valid otherwise. */
function jobIdOf(args: unknown): string | undefined {
  if (typeof args !== 'object' || args === null || !Object.hasOwn(args, 'job_id')) return undefined
  const { job_id: id } = args as { job_id: unknown }
  return typeof id === 'string' ? id : undefined
}

export default definePlugin({ name: 'job-tools', needs: ['jobs'] }, (tools, { jobs }, waits: JobWaits) => {
  for (const tool of jobTools(jobs, waits)) tools.register(tool)
  const { scope } = tools
  // Whoever sees these tools can read and end jobs. Calls without an agent see the global scope.
  const undo = jobs.attachController((owner) => {
    if (owner === undefined) return scope.parent === undefined
    const { scope: own } = owner as Partial<NonNullable<Execution['agent']>>
    return own?.isWithin(scope) === true
  })
  tools.onDispose(undo)
})
