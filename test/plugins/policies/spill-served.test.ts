import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { text } from '../../../server/authoring/content.ts'
import { bareTool } from '../../helpers/bare-tool.ts'
import { startApp, type TestApp } from '../../helpers/app.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

const cap = 2_000
const long = Array.from({ length: 100_000 / 20 }, (_, line) => `line ${String(line).padStart(14)}\n`).join('')

const start = (maxInlineBytes: number): Promise<TestApp> => startApp({ 'spill.maxInlineBytes': String(maxInlineBytes) })

const contentText = ({ content }: { content: readonly object[] }): string => {
  expect(content).toHaveLength(1)
  return (content[0] as { text: string }).text
}

it('C81 a long result is kept whole in a private file, and what remains of it fits', async () => {
  const app = await start(cap)
  const answer = await app.invoke({ name: 'echo', arguments: { text: long } })
  expect(answer).toMatchObject({ isError: false, value: long })
  const shown = contentText(answer)
  expect(Buffer.byteLength(shown)).toBeLessThanOrEqual(cap)
  const cut = shown.lastIndexOf('\n\n(')
  const [preview, notice] = [shown.slice(0, cut), shown.slice(cut + 2)]
  const half = Math.ceil(Buffer.byteLength(preview) / 2)
  expect(long.startsWith(preview.slice(0, half))).toBe(true)
  expect(long.endsWith(preview.slice(half))).toBe(true)
  expect(Number(/(\d+) bytes/.exec(notice)?.[1])).toBe(long.length - preview.length)
  const locator = /\/\S+echo\.txt/.exec(notice)?.[0] as string
  expect(readFileSync(locator, 'utf8')).toBe(long)
  expect(statSync(locator).mode & 0o777).toBe(0o600)
})

it('C81 what is read, what is not text alone, and what has no room for a notice stays', async () => {
  const app = await start(cap)
  const file = join(temporaryDirectory(), 'long.txt')
  writeFileSync(file, long.slice(0, 40_000))
  const read = await app.invoke({ name: 'read', arguments: { file_path: file } })
  expect(Buffer.byteLength(contentText(read))).toBeGreaterThan(40_000)

  const picture = { type: 'image', mimeType: 'image/png', data: 'AAAA' }
  app.app.tools.register({
    ...bareTool('drawn'),
    output: { schema: {}, render: () => [...text(long), picture] }
  })
  const drawn = await app.invoke({ name: 'drawn' })
  expect(drawn.content).toEqual([...text(long), picture])

  const small = await start(20)
  expect(contentText(await small.invoke({ name: 'echo', arguments: { text: long } }))).toBe(long)
})
