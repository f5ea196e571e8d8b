import { describe, expect, it } from 'vitest'
import { visibleText } from '../../server/tools/visible-text.ts'

describe('what an approver is shown', () => {
  it('has nothing that is not seen: controls, turned writing, tags, selectors that spell bytes, letters without a shape', () => {
    expect(visibleText('a\u001bb\u202ec\u00adde\u{e0041}f\u{e0101}g\ufe00h\u3164i\u115fj\u034fk\ufff9l\u2028')).toBe(
      'a\\u{1b}b\\u{202e}c\\u{ad}de\\u{e0041}f\\u{e0101}g\\u{fe00}h\\u{3164}i\\u{115f}j\\u{34f}k\\u{fff9}l\\u{2028}'
    )
  })

  it('is else as it stands: lines, tabs, and emoji of either look', () => {
    const plain = 'a\tb\nc\r\nd ❤\ufe0f☎\ufe0e é日本 😀'
    expect(visibleText(plain)).toBe(plain)
    expect(visibleText('a\rb')).toBe('a\\u{d}b')
  })
})
