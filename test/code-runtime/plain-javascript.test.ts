import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { isPlainJavaScript } from '../../server/code-runtime/plain-javascript.ts'
import { TypeStripper } from '../../server/code-runtime/strip-types.ts'

const plain = [
  'return 1',
  '',
  'for (let n = 0; n < 10; n += 1) await tools.echo({ n })\nreturn a ? (b) : (c) => d',
  "const { readFile } = await import('node:fs/promises')\nreturn readFile('/x')",
  'type\nT = 1',
  'return [1, 2].map((n) => n * 2).filter((n) => n > 2)'
]
const others = [
  'const a: number = 1',
  'return f<string>(1)',
  'return f < T > (1)',
  'return a < b && c > d',
  'return x as number',
  'enum E { A }',
  'interface\nA\n{}',
  'class A { constructor(private b) {} }',
  'return 1\n--> not here',
  'return 1\n<!-- not here',
  'return (',
  'with (a) {}',
  `return ${'('.repeat(2_000)}1${')'.repeat(2_000)}`,
  `return '${'x'.repeat(9_000)}'`
]

describe('a program that needs no stripper', () => {
  it.each(plain)('%s', (program) => {
    expect(isPlainJavaScript(program)).toBe(true)
  })

  it.each(others)('is not %.60s', (program) => {
    expect(isPlainJavaScript(program)).toBe(false)
  })

  it('would come out of it as it is', async () => {
    const folder = join(import.meta.dirname, '../fixtures/programs/hostile')
    const programs = [...plain, ...readdirSync(folder).map((file) => readFileSync(join(folder, file), 'utf8'))]
    const stripper = new TypeStripper()
    afterAll(() => stripper.dispose())
    const seen = programs.filter(isPlainJavaScript)
    expect(seen.length).toBeGreaterThan(60)
    for (const program of seen) await expect(stripper.strip(program)).resolves.toEqual({ code: program })
  })
})
