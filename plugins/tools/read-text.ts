import { type NumberedLine, MAX_WINDOW_BYTES } from './read-lines.ts'

/** Languages by extension, for people who look at a card. */
const languages = new Map(
  Object.entries({
    bash: 'bash',
    c: 'c',
    cc: 'cpp',
    cpp: 'cpp',
    cs: 'csharp',
    css: 'css',
    go: 'go',
    h: 'c',
    hpp: 'cpp',
    html: 'html',
    java: 'java',
    js: 'javascript',
    json: 'json',
    jsx: 'jsx',
    kt: 'kotlin',
    lua: 'lua',
    md: 'markdown',
    mjs: 'javascript',
    php: 'php',
    py: 'python',
    rb: 'ruby',
    rs: 'rust',
    sh: 'bash',
    sql: 'sql',
    swift: 'swift',
    toml: 'toml',
    ts: 'typescript',
    tsx: 'tsx',
    xml: 'xml',
    yaml: 'yaml',
    yml: 'yaml'
  })
)

/** The language of a path; none for dotfiles and what is not in the table. */
export function languageOf(path: string): string | undefined {
  const name = path.slice(path.lastIndexOf('/') + 1)
  const dot = name.lastIndexOf('.')
  return dot > 0 ? languages.get(name.slice(dot + 1).toLowerCase()) : undefined
}

/** A window of a file: what `read` returns, and, with the language, what its card is made of. */
export interface ReadWindow {
  path: string
  offset: number
  lines: NumberedLine[]
  totalLines: number
}

const opening = (path: string): string => `<path>${path}</path>\n<type>file</type>\n<content>\n`
const closing = '\n</content>'

/** What a model reads of a window (backends.md §6.3). */
export function renderWindow(window: ReadWindow, limit: number): string {
  const rows = window.lines.map(({ number, text }) => `${number}: ${text}\n`).join('')
  const body = `${rows}${rows === '' ? '' : '\n'}${footer(window, limit)}`
  return fileEnvelope(window.path, body)
}

/** What `read` and `write` say of a file, between tags that name it. */
export const fileEnvelope = (path: string, body: string): string => `${opening(path)}${body}${closing}`

function footer({ offset, lines, totalLines }: ReadWindow, limit: number): string {
  const next = offset + lines.length
  if (next > totalLines) return `(End of the file: ${totalLines} lines in total.)`
  const range = `lines ${offset} to ${next - 1} of ${totalLines}; go on with offset ${next}`
  // Fewer lines than were asked for although the file goes on: only the byte cap does that.
  return lines.length < limit ? `(Cut at ${MAX_WINDOW_BYTES} bytes: ${range}.)` : `(Shown are ${range}.)`
}

/** The text without its envelope; undefined when it is not the envelope of that path. */
export function windowBody(text: string, path: string): string | undefined {
  const start = opening(path)
  if (!text.startsWith(start) || !text.endsWith(closing) || text.length < start.length + closing.length)
    return undefined
  return text.slice(start.length, -closing.length)
}
