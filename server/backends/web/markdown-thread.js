/** The thread that converts HTML (markdown-converter.ts); it is ended when a page takes too long. */
import { parentPort } from 'node:worker_threads'
import { htmlToMarkdown } from './html-to-markdown.js'

/** @import { ConvertRequest, ConvertAnswer } from './markdown-converter.ts' */

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort)

/** @param {ConvertRequest} request @returns {ConvertAnswer} */
function convert({ html, maxCharacters }) {
  try {
    const text = htmlToMarkdown(html)
    // Flattened, so that what is cut off is not copied.
    return { type: 'markdown', text: text.slice(0, maxCharacters), truncated: text.length > maxCharacters }
  } catch {
    // An exhausted stack, and what the libraries make of odd HTML.
    return { type: 'failed' }
  }
}

// The first page costs tens of milliseconds, which are not its own fault.
htmlToMarkdown('<h1>warm</h1><table><tr><td>up</td></tr></table>')
port.on('message', (/** @type {ConvertRequest} */ request) => port.postMessage(convert(request)))
port.postMessage({ type: 'ready' })
