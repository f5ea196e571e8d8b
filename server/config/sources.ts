import { readFileSync } from 'node:fs'
import { LineCounter, parseDocument } from 'yaml'
import { type Setting, settings } from './schema.ts'

/** Where a value came from, as shown by `toolwright config`: `default`, `file /x.json:3`, `environment TOOLWRIGHT_PORT`, `flag --port`. */
export interface Given {
  readonly value: unknown
  readonly source: string
}

/** One layer of settings by path, and what was wrong with it, in words. */
export interface Layer {
  readonly given: Map<string, Given>
  readonly problems: string[]
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const sections = new Set(
  [...settings.keys()].filter((path) => path.includes('.')).map((path) => path.split('.')[0] as string)
)

/** The settings of a JSON file. A key that is no setting is a problem, named with its path and its line. */
export function readFileLayer(path: string): Layer {
  const layer: Layer = { given: new Map(), problems: [] }
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    layer.problems.push(`${path}: ${(error as Error).message}`)
    return layer
  }
  // JSON.parse knows no positions and takes the last of two equal keys; JSON is YAML, whose reader knows both.
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, schema: 'json' })
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch {
    // The parser's own message quotes the text around the fault, which may be a secret.
    const [fault] = document.errors
    layer.problems.push(`${path}${fault ? `:${lines.linePos(fault.pos[0]).line}` : ''}: not valid JSON`)
    return layer
  }
  if (!isObject(content)) {
    layer.problems.push(`${path}: the configuration is one JSON object`)
    return layer
  }
  for (const error of document.errors.filter(({ code }) => code === 'DUPLICATE_KEY')) {
    layer.problems.push(`${path}:${lines.linePos(error.pos[0]).line}: a key stands twice`)
  }
  const at = (keys: string[]): string => {
    const node = document.getIn(keys, true) as { range?: [number, number, number] } | undefined
    return node?.range ? `${path}:${lines.linePos(node.range[0]).line}` : path
  }
  const take = (keys: string[], value: unknown): void => {
    const name = keys.join('.')
    if (settings.has(name)) layer.given.set(name, { value, source: `file ${at(keys)}` })
    else layer.problems.push(`${at(keys)}: unknown setting ${JSON.stringify(name)}${suggestion(name)}`)
  }
  for (const [key, value] of Object.entries(content)) {
    if (!sections.has(key)) take([key], value)
    else if (isObject(value)) for (const [inner, leaf] of Object.entries(value)) take([key, inner], leaf)
    else layer.problems.push(`${at([key])}: ${key} is a section, an object of settings`)
  }
  return layer
}

const byVariable = new Map([...settings.values()].map((setting) => [setting.variable, setting]))

/** Ours, but no setting: the file's own path, the client's address, and what a tool's shell is given (backends.md §3.1). */
const otherVariables = new Set([
  'TOOLWRIGHT_CONFIG',
  'TOOLWRIGHT_URL',
  'TOOLWRIGHT_SHELL',
  'TOOLWRIGHT_SESSION_ID',
  'TOOLWRIGHT_TREE'
])

/** Kubernetes puts `TOOLWRIGHT_PORT=tcp://…` and such into every pod beside a Service that is named toolwright. */
const isServiceLink = (name: string, value: string): boolean =>
  /^TOOLWRIGHT_(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP))/.test(name) ||
  (name === 'TOOLWRIGHT_PORT' && /^\w+:\/\//.test(value))

/** The settings of the environment. A `TOOLWRIGHT_…` variable that is none of them is a problem, being most likely a typo. */
export function readEnvironmentLayer(env: NodeJS.ProcessEnv): Layer {
  const layer: Layer = { given: new Map(), problems: [] }
  // Inside a tool's shell further variables may be there, put in by plugins.
  const isNested = env.TOOLWRIGHT_SHELL !== undefined
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith('TOOLWRIGHT_') || text === undefined || otherVariables.has(name) || isServiceLink(name, text))
      continue
    const setting = byVariable.get(name)
    if (setting) layer.given.set(setting.path, { value: fromText(setting, text), source: `environment ${name}` })
    else if (!isNested)
      layer.problems.push(`unknown environment variable ${name}${suggestion(name, byVariable.keys())}`)
  }
  return layer
}

/** The settings of command line flags, `path=value` each. */
export function readFlagLayer(flags: ReadonlyMap<string, string | true>): Layer {
  const layer: Layer = { given: new Map(), problems: [] }
  for (const [path, text] of flags) {
    const setting = settings.get(path)
    if (setting)
      layer.given.set(path, { value: text === true ? true : fromText(setting, text), source: `flag ${path}` })
    else layer.problems.push(`unknown setting ${JSON.stringify(path)} on the command line${suggestion(path)}`)
  }
  return layer
}

/** The value that a text stands for; a text that is none of the setting's kind stays as it is and fails the check. */
function fromText({ schema }: Setting, text: string): unknown {
  if (schema.type === 'boolean')
    return text === 'true' || text === '1' ? true : text === 'false' || text === '0' ? false : text
  if (schema.type === 'integer') return /^-?\d+$/.test(text) ? Number(text) : text
  if (schema.type !== 'array' && schema.type !== 'object') return text
  if (schema.type === 'object' || text.trimStart().startsWith('[')) {
    try {
      return JSON.parse(text)
    } catch {
      return text
    }
  }
  const parts = text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
  return schema.items.type === 'integer' ? parts.map((part) => (/^-?\d+$/.test(part) ? Number(part) : part)) : parts
}

/** The nearest known name, when it is near enough to have been meant. */
function suggestion(name: string, known: Iterable<string> = settings.keys()): string {
  let nearest: string | undefined
  let least = 4
  for (const candidate of known) {
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase(), least)
    if (distance < least) [nearest, least] = [candidate, distance]
  }
  return nearest === undefined ? '' : `; did you mean ${nearest}?`
}

/** Levenshtein's distance, given up on (as `limit`) once it cannot be below `limit`. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(swap, (row[j] as number) + 1, (next[j - 1] as number) + 1))
    }
    row = next
  }
  return row[b.length] as number
}
