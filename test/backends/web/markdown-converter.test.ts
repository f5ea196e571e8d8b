import { expect, it, onTestFinished } from 'vitest'
import { MarkdownConverter } from '../../../server/backends/web/markdown-converter.ts'

const never = new AbortController().signal

function open(timeoutMs = 20_000) {
  const converter = new MarkdownConverter({ timeoutMs })
  onTestFinished(() => converter.close())
  const convert = (html: string, { signal = never, maxCharacters = 200_000 } = {}) =>
    converter.convert(html, { signal, maxCharacters })
  return { converter, convert }
}

/** Takes half a minute. */
const deep = '<div>'.repeat(20_000)

it('converts pages, several at a time', async () => {
  const { convert } = open()
  const texts = await Promise.all(['a', 'b', 'c'].map((name) => convert(`<h1>${name}</h1>`)))
  expect(texts).toEqual(['# a', '# b', '# c'].map((text) => ({ text, truncated: false })))
})

it('gives as much as is wanted', async () => {
  const { convert } = open()
  expect(await convert('<p>12345</p>', { maxCharacters: 5 })).toEqual({ text: '12345', truncated: false })
  expect(await convert('<p>12345</p>', { maxCharacters: 4 })).toEqual({ text: '1234', truncated: true })
})

it('gives up on a page that takes too long, with the main loop free and the next page converted', async () => {
  const { convert } = open(1_500)
  let turns = 0
  const timer = setInterval(() => (turns += 1), 10)
  const [stuck, next] = await Promise.all([convert(deep), convert('<b>next</b>')])
  clearInterval(timer)
  expect(stuck).toBeUndefined()
  expect(next === undefined || next.text === '**next**').toBe(true)
  // A conversion on the main loop would have let no timer fire.
  expect(turns).toBeGreaterThan(10)
  expect(await convert('<b>after</b>')).toEqual({ text: '**after**', truncated: false })
})

it('gives up on a page whose Markdown fills the memory', async () => {
  const { convert } = open(10_000)
  const lists = `${'<ul><li>'.repeat(400)}${'a<br>'.repeat(18_000)}`
  const markdown = await convert(lists)
  expect(markdown === undefined || (markdown.truncated && markdown.text.length === 200_000)).toBe(true)
  expect(await convert('<b>after</b>')).toEqual({ text: '**after**', truncated: false })
})

it('is undefined for a page that nests too deep', async () => {
  const { convert } = open()
  expect(await convert('<div>'.repeat(600))).toBeUndefined()
})

it('stops for an abort: before, while waiting, while converting', async () => {
  const { convert } = open()
  const code = (promise: Promise<unknown>) => promise.catch((error: { code: string }) => error.code)
  expect(await code(convert('x', { signal: AbortSignal.abort() }))).toBe('WEB_ABORTED')
  // With the thread there, the next page is converted at once.
  await convert('x')
  const first = new AbortController()
  const second = new AbortController()
  const stuck = code(convert(deep, { signal: first.signal }))
  const waiting = code(convert('<b>waiting</b>', { signal: second.signal }))
  const last = convert('<b>last</b>')
  second.abort()
  expect(await waiting).toBe('WEB_ABORTED')
  first.abort()
  expect(await stuck).toBe('WEB_ABORTED')
  expect(await last).toEqual({ text: '**last**', truncated: false })
})

it('settles everything when it is closed, and takes nothing after', async () => {
  const { converter, convert } = open()
  await convert('x')
  const pages = [convert(deep), convert('x')]
  await converter.close()
  expect(await Promise.all(pages)).toEqual([undefined, undefined])
  await expect(convert('x')).rejects.toMatchObject({ code: 'WEB_ABORTED' })
})
