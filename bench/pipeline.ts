import { performance } from 'node:perf_hooks'
import { text } from '../server/authoring/content.ts'
import { defineTool } from '../server/authoring/define-tool.ts'
import { toolScopeOf } from '../server/authoring/tool-scope.ts'
import { createPipeline, type Pipeline } from '../server/pipeline/pipeline.ts'
import type { ExecutionInput } from '../server/pipeline/execution.ts'
import { runBatch, type ScheduledCall } from '../server/scheduler/scheduler.ts'
import { ScopeTree } from '../server/scopes/scope-tree.ts'
import { Registry } from '../server/tools/registry.ts'
import { median } from './median.ts'

const seconds = Number(process.env['BENCH_SECONDS'] ?? 2)
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)
const hooksPerStage = 5
const batchSize = 100
const maxParallel = 10

interface Measured {
  perSecond: number
  cpuMicros: number
}

/** Runs some executions one after another or overlapping, and tells how many. */
type Load = () => Promise<number>

/** What a call of an echo tool costs from stage to stage, in process and without a log: the price of hooks, and of a batch. */
export async function benchPipeline(): Promise<void> {
  const [bare, hooked] = [engine(0), engine(hooksPerStage)]
  const loads = new Map<string, Load>([
    ['no policy', () => oneByOne(bare)],
    [`${hooksPerStage} hooks a stage`, () => oneByOne(hooked)],
    [`a batch of ${batchSize}`, () => batch(bare)]
  ])
  for (const load of loads.values()) await measure(load, seconds / 4)
  const measured = new Map<string, Measured[]>([...loads.keys()].map((name) => [name, []]))
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, load] of loads) measured.get(name)?.push(await measure(load, seconds))
  }
  console.log(
    'Executions of an echo tool, in process (medians, alternated; ratios are to the first line of the same run)\n'
  )
  console.log('calls           | executions/s | CPU µs each | ratio of CPU')
  let base: number | undefined
  for (const [name, all] of measured) {
    const cpuMicros = median(all.map((one) => one.cpuMicros))
    base ??= cpuMicros
    const cells = [
      name.padEnd(15),
      median(all.map((one) => one.perSecond))
        .toFixed(0)
        .padStart(12),
      cpuMicros.toFixed(1).padStart(11),
      (cpuMicros / base).toFixed(2).padStart(12)
    ]
    console.log(cells.join(' | '))
  }
}

/** Hooks that pass everything on, on each stage of every call. */
function engine(hooks: number): Pipeline {
  const tree = new ScopeTree()
  const registry = new Registry({ tree })
  const pipeline = createPipeline({ tree, registry, warn: (message) => console.warn(message) })
  const scope = toolScopeOf({ tree, registry, pipeline }, tree.global)
  scope.register(
    defineTool({
      name: 'echo',
      description: 'Gives its text back.',
      parameters: { text: { type: 'string', required: true } },
      output: { schema: { type: 'string' }, render: (_args, value) => text(value) },
      isConcurrencySafe: () => true,
      execute: async (args) => args.text
    })
  )
  for (let n = 0; n < hooks; n += 1) {
    scope.addHook('preExecute', (_exec, next) => next())
    scope.guard(() => undefined)
    scope.addHook('execute', (_exec, next) => next())
    scope.addHook('postExecute', (_exec, _result, next) => next())
    scope.addHook('onResult', () => undefined)
  }
  return pipeline
}

let calls = 0

function input(): ExecutionInput {
  calls += 1
  return { name: 'echo', callId: `call-${calls}`, arguments: { text: 'hello' }, signal: new AbortController().signal }
}

async function oneByOne(pipeline: Pipeline): Promise<number> {
  for (let n = 0; n < batchSize; n += 1) {
    const { isError } = await pipeline.execute(input())
    if (isError) throw new Error('a call failed')
  }
  return batchSize
}

/** All of them parallel: what the lane adds to the four steps that it interleaves. */
async function batch(pipeline: Pipeline): Promise<number> {
  let done = 0
  const scheduled = Array.from({ length: batchSize }, (): ScheduledCall => {
    const call = input()
    let commit: (() => Promise<{ isError: boolean }>) | undefined
    return {
      isAborted: false,
      mode: () => pipeline.executionMode(call).kind,
      start: async () => {
        const prepared = await pipeline.prepare(call)
        if (prepared.stage !== 'dispatch') throw new Error('a call was stopped')
        return async () => {
          const { result } = await pipeline.dispatch(prepared.call)
          commit = () => pipeline.finalize(prepared.call, result)
        }
      },
      commit: async () => {
        const result = await commit?.()
        if (result?.isError === false) done += 1
      },
      skip: async () => undefined
    }
  })
  await runBatch(scheduled, maxParallel)
  if (done !== batchSize) throw new Error(`${batchSize - done} calls failed`)
  return done
}

async function measure(load: Load, duration: number): Promise<Measured> {
  let count = 0
  const startedAt = performance.now()
  const cpuBefore = process.cpuUsage()
  const end = startedAt + duration * 1000
  while (performance.now() < end) count += await load()
  const { user, system } = process.cpuUsage(cpuBefore)
  return { perSecond: (count * 1000) / (performance.now() - startedAt), cpuMicros: (user + system) / count }
}
