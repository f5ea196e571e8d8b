/** Turns HTML into Markdown (backends.md §8.2). Hostile HTML can keep it busy for minutes: run it in a thread that can be ended. */
import TurndownService from 'turndown'
// @ts-expect-error: it comes without types
import { highlightedCodeBlock, strikethrough, taskListItems } from 'turndown-plugin-gfm'
import { tables } from './markdown-tables.js'

/** Deeper HTML is no page for people, and recursion would end in an exhausted stack. */
const MAX_DEPTH = 512

const service = new TurndownService({ headingStyle: 'atx', codeBlockStyle: 'fenced', bulletListMarker: '-' })
service.use([highlightedCodeBlock, strikethrough, taskListItems, tables])
service.remove(['script', 'style', 'noscript'])

// The rule of a node is looked for before its children are converted, so that this is where the descent can end.
const { rules } = service
const forNode = rules.forNode.bind(rules)
/** @type {WeakMap<object, number>} */
const depths = new WeakMap()
rules.forNode = (node) => {
  const depth = 1 + (depths.get(/** @type {{ parentNode: object }} */ (node).parentNode) ?? 0)
  if (depth > MAX_DEPTH) throw new RangeError(`the HTML nests deeper than ${MAX_DEPTH}`)
  depths.set(node, depth)
  return forNode(node)
}

/** Throws where the HTML nests too deep. @param {string} html */
export const htmlToMarkdown = (html) => service.turndown(html)
