import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildApp } from '../server/app.ts'
import { text } from '../server/authoring/content.ts'
import { defineTool } from '../server/authoring/define-tool.ts'
import { createRunCode } from '../server/code-mode/run-code.ts'
import type { RunRequest, RunResult } from '../server/code-runtime/code-runtime.ts'
import { loadConfig } from '../server/config/load.ts'
import { Session } from '../server/sessions/session.ts'
import { median } from './median.ts'

const rounds = Number(process.env['BENCH_ROUNDS'] ?? 10)

/** What one call took, in ms: through the bridge alone, and in a program. */
interface BoundCall {
  direct: number
  bound: number
}

/**
 * What a program and its world add to a call. The server runs in this process, so that beside `run_code` it can have a tool of the same
 * kind, whose “program” is a loop in the server itself: the same bridge, pipeline and durable log. The two are alternated.
 */
export async function timeBoundCalls(backend: string, program: string, calls: number): Promise<BoundCall> {
  const home = mkdtempSync(join(tmpdir(), 'toolwright-bench-'))
  const flags = { home, port: '0', 'log.level': 'error', 'presentation.mode': 'both', 'codeRuntime.backend': backend }
  const { config } = loadConfig({ flags: new Map(Object.entries(flags)) })
  const app = await buildApp(config)
  try {
    const { registry, pipeline } = app
    app.tools.register(
      defineTool({
        name: 'echo',
        description: 'Returns its text.',
        parameters: { text: { type: 'string', required: true } },
        output: { schema: { type: 'string' }, render: (_args, value) => text(value) },
        isConcurrencySafe: () => true,
        execute: (args) => args.text
      })
    )
    const direct = createRunCode({
      registry,
      pipeline,
      runtime: () => ({ language: 'typescript', run: (request) => callInTurn(request, calls) }),
      ...config.codeMode,
      maxStoredPayloadBytes: config.calls.maxStoredPayloadBytes,
      append: async (agent, event) => {
        const closing = event.type === 'tool/code-dispatch'
        if (agent instanceof Session) await agent.append([event], { closing })
      },
      onProgress: () => undefined
    })
    app.tools.register({ ...direct, name: 'direct' })
    await app.listen({ host: '127.0.0.1', port: 0 })
    const token = readFileSync(join(home, 'admin-token'), 'utf8').trim()
    const { port } = app.server.address() as AddressInfo
    const took = async (name: string): Promise<number> => {
      const response = await fetch(`http://127.0.0.1:${port}/invoke`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
        body: JSON.stringify({ session: name, name, arguments: { code: program, description: 'bench' } })
      })
      return ((await response.json()) as { value: { result: number } }).value.result / calls
    }
    const seen = { direct: [] as number[], run_code: [] as number[] }
    for (let round = -1; round < rounds; round += 1) {
      for (const name of ['direct', 'run_code'] as const) {
        const ms = await took(name)
        // The first of each compiles.
        if (round >= 0) seen[name].push(ms)
      }
    }
    return { direct: median(seen.direct), bound: median(seen.run_code) }
  } finally {
    await app.close()
    rmSync(home, { recursive: true })
  }
}

async function callInTurn({ bindings }: RunRequest, calls: number): Promise<RunResult> {
  const echo = bindings[0]?.functions['echo']
  const at = performance.now()
  for (let n = 0; n < calls; n += 1) await echo?.({ text: 'x' })
  return { value: performance.now() - at, logs: [] }
}
