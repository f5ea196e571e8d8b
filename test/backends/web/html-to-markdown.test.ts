import { describe, expect, it } from 'vitest'
import { htmlToMarkdown } from '../../../server/backends/web/html-to-markdown.js'

describe('HTML as Markdown (backends.md §8.2)', () => {
  it('has headings, fenced code and bullets, and nothing of scripts and styles', () => {
    const html =
      '<title>Title</title><style>p{}</style><h2>Head</h2><script>alert(1)</script><noscript>none</noscript>' +
      '<ul><li>a</li><li>b</li></ul><pre><code class="language-js">let a</code></pre><p><del>x</del> <a href="/y">y</a></p>'
    const lines = htmlToMarkdown(html).split('\n')
    expect(lines).toEqual([
      'Title',
      '',
      '## Head',
      '',
      '-   a',
      '-   b',
      '',
      '```js',
      'let a',
      '```',
      '',
      '~x~ [y](/y)'
    ])
  })

  it('has GFM tables, whose cells stay on their line', () => {
    const html =
      '<table><thead><tr><th>a</th><th align="right">b</th></tr></thead><tbody><tr><td>1|2</td><td>x<p>y</p></td></tr></tbody></table>'
    expect(htmlToMarkdown(html)).toBe('| a | b |\n| --- | --: |\n| 1\\|2 | x y |')
  })

  it.each([
    ['without headings', '<table><tr><td>1<td>2<tr><td>3<td>4</table>', '|  |  |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |'],
    ['with row headings', '<table><tr><th>k<td>v</table>', '|  |  |\n| --- | --- |\n| k | v |'],
    ['with a caption', '<table><caption>C</caption><tr><th>k</table>', 'C\n\n| k |\n| --- |'],
    ['without rows', 'a<table></table>b<table><tr></tr></table>c', 'a\n\nb\n\nc'],
    ['that lay out a page', '<table><tr><td><h2>H</h2><p>p</p></td><td>q</td></tr></table>', '## H\n\np\n\nq']
  ])('makes the best of tables %s', (_name, html, markdown) => {
    expect(htmlToMarkdown(html)).toBe(markdown)
  })

  it('throws for HTML deeper than 512, also where there is nothing in it', () => {
    const nested = (depth: number, text: string) => `${'<div>'.repeat(depth)}${text}${'</div>'.repeat(depth)}`
    expect(htmlToMarkdown(nested(512, 'x'))).toBe('x')
    expect(() => htmlToMarkdown(nested(513, 'x'))).toThrow(/deeper than 512/)
    expect(() => htmlToMarkdown(nested(513, ''))).toThrow(/deeper than 512/)
    expect(htmlToMarkdown('<p>and goes on</p>')).toBe('and goes on')
  })

  it.each([
    '',
    ' ',
    '<',
    '<!doctype html>',
    '<html',
    '</p></div>',
    '<p',
    '\0',
    '<svg><p>x</svg>',
    '<template><p>x</template>'
  ])('bears %j', (html) => {
    expect(typeof htmlToMarkdown(html)).toBe('string')
  })
})
