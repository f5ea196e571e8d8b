import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'

// Every conformance case of code mode, and against what it is to be tested. Titles cite the cases as C041.

/** They need no world: schemas, prompts, and the order of steps, which a program of the test's own shows best. */
const once = [1, 2, 3, 4, 6, 7, 8, 12, 13, 16, 18, 19, 41, 42, 44, 45, 50]
/** They are run in the worlds of each backend. */
const everywhere = [
  ...[9, 11, 14, 21, 22, 23, 25, 28, 30, 31, 32, 33, 34, 37, 38, 39, 40, 46, 48],
  ...[51, 53, 54, 56, 58, 61, 62, 65, 66, 67]
]

const withoutAWorld = [
  ...['presentation', 'run-code', 'render-output', 'bridge-order'],
  ...['sdk-section', 'sdk-typescript', 'sdk-python']
].map((name) => `code-mode/${name}.test.ts`)
const typescript = ['code-runtime/contract.ts', 'code-mode/bridge.test.ts', 'code-mode/run-code.test.ts']

const places: Record<string, string[]> = {
  // The contract, and the bridge's file, run on both; what a thread cannot pass is no case (code-runtime/worker/uncontained.test.ts).
  'process, worker-thread': typescript,
  python: ['code-runtime/python/python-runtime.test.ts', 'code-mode/bridge-python.test.ts']
}

/** Titles of the tests of some files. */
function titlesIn(files: readonly string[]): string {
  const text = files.map((file) => readFileSync(join(import.meta.dirname, '..', file), 'utf8')).join('\n')
  return [...text.matchAll(/(?:\bit|\bcheck|\.each\([^]*?\))\(\s*['`]([^\n]*)/g)].map(([, title]) => title).join('\n')
}

const missing = (cases: readonly number[], titles: string): string[] =>
  cases.map((number) => `C${String(number).padStart(3, '0')}`).filter((id) => !titles.includes(id))

it('the cases that need no world are tested', () => {
  expect(missing(once, titlesIn([...withoutAWorld, ...Object.values(places).flat()]))).toEqual([])
})

it.each(Object.entries(places))('the others are tested in the worlds of %s', (_name, files) => {
  expect(missing(everywhere, titlesIn(files))).toEqual([])
})
