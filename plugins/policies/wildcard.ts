/**
 * A test of whole texts: `*` stands for any run of characters, none included, all else for itself. Linear in the text, since what
 * is tested may be anything a client sends.
 */
export function wildcard(pattern: string): (text: string) => boolean {
  const [head = '', ...rest] = pattern.split('*')
  const tail = rest.pop()
  if (tail === undefined) return (text) => text === pattern
  return (text) => {
    if (text.length < head.length + tail.length || !text.startsWith(head) || !text.endsWith(tail)) return false
    const end = text.length - tail.length
    let at = head.length
    return rest.every((part) => {
      const found = text.indexOf(part, at)
      at = found + part.length
      return found >= 0 && at <= end
    })
  }
}
