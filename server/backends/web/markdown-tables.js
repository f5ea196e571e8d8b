/**
 * Tables as GFM knows them (backends.md §8.2). turndown-plugin-gfm leaves those without a heading row as HTML, fails on empty ones,
 * and lets what stands in a cell break its line.
 */

/** @import TurndownService from 'turndown' */

/**
 * As much of an element as is used here.
 * @typedef {object} Element
 * @property {string} nodeName
 * @property {Element | null} parentNode
 * @property {Element | null} previousSibling
 * @property {Element | null} nextSibling
 * @property {ArrayLike<Element>} childNodes
 * @property {(name: string) => ArrayLike<Element>} getElementsByTagName
 * @property {(name: string) => string | null} getAttribute
 */

/** What does not fit into one line: a table without headings that has such things in it lays out a page. */
const blocks = ['table', 'ul', 'ol', 'dl', 'pre', 'blockquote', 'p', 'div', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr']
const borders = new Map([
  ['left', ':--'],
  ['right', '--:'],
  ['center', ':-:']
])

/** @typedef {{ isLayout: boolean, firstRow: Element | undefined, hasHeading: boolean }} TableFacts */
/** @type {WeakMap<Element, TableFacts>} */
const known = new WeakMap()

/** @param {Element} table @returns {TableFacts} */
function factsOf(table) {
  const facts = known.get(table) ?? readFacts(table)
  known.set(table, facts)
  return facts
}

/** @param {Element} table @returns {TableFacts} */
function readFacts(table) {
  const has = (/** @type {string} */ name) => table.getElementsByTagName(name).length > 0
  const firstRow = table.getElementsByTagName('tr')[0]
  const cells = firstRow === undefined ? [] : cellsOf(firstRow)
  const hasHeading = firstRow?.parentNode?.nodeName === 'THEAD' || cells.every(({ nodeName }) => nodeName === 'TH')
  return { isLayout: cells.length === 0 || (!has('th') && blocks.some(has)), firstRow, hasHeading }
}

/** @param {Element} row */
const cellsOf = ({ childNodes }) => Array.from(childNodes).filter(isCell)

/** @param {Element | null} node */
const isCell = (node) => node?.nodeName === 'TD' || node?.nodeName === 'TH'

/** The facts of the table that a part belongs to, unless it has none or that lays out a page. @param {Element} part */
function dataTableOf(part) {
  let at = part.parentNode
  while (at !== null && at.nodeName !== 'TABLE') at = at.parentNode
  const facts = at === null ? undefined : factsOf(at)
  return facts?.isLayout === true ? undefined : facts
}

/** @param {Element} row @param {string} content @param {TableFacts} facts */
function rowLines(row, content, { firstRow, hasHeading }) {
  if (row !== firstRow) return `\n${content}`
  const cells = cellsOf(row)
  const border = cells.map((cell) => ` ${borders.get((cell.getAttribute('align') ?? '').toLowerCase()) ?? '---'} |`)
  // GFM knows no table without a heading; an empty one stands in for it.
  const heading = hasHeading ? content : `|${'  |'.repeat(cells.length)}`
  return `\n${heading}\n|${border.join('')}${hasHeading ? '' : `\n${content}`}`
}

/** @param {string} content */
const block = (content) => `\n\n${content}\n\n`

/** A plugin of turndown. @param {TurndownService} service */
export function tables(service) {
  service.addRule('table', { filter: 'table', replacement: block })
  service.addRule('tableCaption', { filter: 'caption', replacement: block })
  service.addRule('tableSection', {
    filter: ['thead', 'tbody', 'tfoot'],
    replacement: (content, node) => (dataTableOf(elementOf(node)) ? content : block(content))
  })
  service.addRule('tableRow', {
    filter: 'tr',
    replacement(content, node) {
      const facts = dataTableOf(elementOf(node))
      return facts === undefined ? block(content) : rowLines(elementOf(node), content, facts)
    }
  })
  service.addRule('tableCell', {
    filter: ['td', 'th'],
    replacement(content, node) {
      const cell = elementOf(node)
      if (dataTableOf(cell) === undefined) return block(content)
      const line = content
        .trim()
        .replaceAll(/[ \t]*\n\s*/g, ' ')
        .replaceAll('|', String.raw`\|`)
      return `${isCell(cell.previousSibling) ? '' : '|'} ${line} |`
    }
  })
}

/** @param {unknown} node */
const elementOf = (node) => /** @type {Element} */ (node)
