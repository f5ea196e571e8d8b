import { randomUUID } from 'node:crypto'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { CodeRuntime } from '../../server/code-runtime/code-runtime.ts'
import { openProcessRuntime } from '../../server/code-runtime/process/process-runtime.ts'
import { openPythonRuntime } from '../../server/code-runtime/python/python-runtime.ts'
import { processesNaming, runProgram } from '../helpers/code-runtime.ts'
import { until } from '../helpers/until.ts'

// Each file says in its first line how the program may end: a failure kind, or `value`. Whatever they do, the server's process is the
// same, later programs succeed, no process is left, and memory is back in bounds (code-mode.md §0, §15; F56, F61, F62, F75, F77).
const fixtures = join(import.meta.dirname, '../fixtures/programs')
const megabyte = 1024 * 1024
const outputBytes = megabyte / 4
/** Starting a world is most of what a program costs here: the one that shows that all is well comes after every so many. */
const between = 6

const generated: [name: string, kinds: string, program: string][] = [
  ['parentheses', 'exception', `return ${'('.repeat(20_000)}1${')'.repeat(20_000)}`],
  ['template nesting', 'exception', `return ${'`${'.repeat(5_000)}1${'}`'.repeat(5_000)}`],
  ['type nesting', 'exception, value', `type T = ${'A<'.repeat(5_000)}B${'>'.repeat(5_000)}\nreturn 1`],
  ['blocks', 'exception', `${'{'.repeat(8_000)}${'}'.repeat(8_000)}`],
  ['a chain of operators', 'exception, value', `return ${'1+'.repeat(50_000)}1`],
  ['a chain of members', 'exception, value', `return 1${'.b'.repeat(50_000)}`],
  ['a megabyte of text', 'exception', `return 1 //${'x'.repeat(2 * megabyte)}`]
]

const generatedPython: [name: string, kinds: string, program: string][] = [
  ['parentheses', 'exception', `return ${'('.repeat(20_000)}1${')'.repeat(20_000)}`],
  ['signs', 'exception, worker-exit, value', `return ${'-'.repeat(100_000)}1`],
  ['a chain of members', 'exception, worker-exit', `return x${'.b'.repeat(50_000)}`],
  ['a chain of operators', 'exception, worker-exit, value', `return ${'1+'.repeat(50_000)}1`],
  ['a null byte', 'exception', 'return 1\0']
]

const programsIn = (folder: string): [name: string, kinds: string, program: string][] =>
  readdirSync(join(fixtures, folder)).map((file) => {
    const [first = '', ...rest] = readFileSync(join(fixtures, folder, file), 'utf8').split('\n')
    return [file.replace('.txt', '').replaceAll('-', ' '), first.replace(/^(\/\/|#) /, ''), rest.join('\n')]
  })

const languages = [
  [
    'TypeScript',
    {
      open: openProcessRuntime,
      programs: [...programsIn('hostile'), ...generated],
      least: 90,
      next: 'return [await tools.add({ a: 1, b: 2 }), typeof leak]',
      value: [3, 'undefined']
    }
  ],
  [
    'Python',
    {
      open: openPythonRuntime,
      programs: [...programsIn('hostile-python'), ...generatedPython],
      least: 50,
      next: "return [await tools.add({'a': 1, 'b': 2}), 'leak' in globals()]",
      value: [3, false]
    }
  ]
] as const

describe.concurrent.each(languages)('hostile programs in %s', (_language, { open, programs, least, next, value }) => {
  // One ends hot loops soon, the other lets allocations come as far as their own limit on a busy machine.
  let hasty: CodeRuntime
  let patient: CodeRuntime
  let baseline = 0
  let ended = 0

  beforeAll(async () => {
    const limits = {
      maxWallMs: 60_000,
      maxOutputBytes: outputBytes,
      maxOldGenerationSizeMb: 48,
      maxRssMb: 220,
      spareWorlds: 2
    }
    hasty = await open({ ...limits, computeMs: 400, maxWallMs: 2_500 })
    patient = await open({ ...limits, computeMs: 30_000 })
    await runProgram(hasty, next)
    baseline = process.memoryUsage().rss
  }, 60_000)

  afterAll(async () => {
    for (const runtime of [hasty, patient]) {
      await expect(runProgram(runtime, next)).resolves.toEqual({ value, logs: [] })
    }
    await Promise.all([hasty.dispose(), patient.dispose()])
  }, 30_000)

  it('are many', () => {
    expect(programs.length).toBeGreaterThanOrEqual(least)
  })

  it.each(programs)('%s → %s', { timeout: 120_000 }, async (_name, kinds, text) => {
    const runtime = kinds.includes('timeout') ? hasty : patient
    const nonce = `hostile-${randomUUID()}`
    const program = text.replaceAll('NONCE', nonce).replaceAll('SERVERPID', String(process.pid))
    const outcome = await runProgram(runtime, program)

    const { logs, error } = outcome
    expect(kinds.split(', '), error?.message).toContain(error?.kind ?? 'value')
    expect(JSON.stringify(logs).length + (error ? JSON.stringify(error.message).length : 0)).toBeLessThanOrEqual(
      outputBytes
    )
    expect(error?.message ?? '').not.toMatch(/\/server\/|node:internal/)
    if (error) expect(outcome.value).toBeUndefined()

    ended += 1
    if (ended >= between) {
      // Its few seconds by the clock may be over before a busy machine has started a world for it.
      const isWell = async (): Promise<void> => expect(await runProgram(runtime, next)).toEqual({ value, logs: [] })
      await vi.waitFor(isWell, { timeout: 20_000 })
      ended = 0
    }
    await until(() => processesNaming(nonce).length === 0)
    await until(() => process.memoryUsage().rss < baseline + 300 * megabyte)
    expect(runtime.load().stuck).toBe(0)
  })
})
