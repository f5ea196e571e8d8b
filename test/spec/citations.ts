import { parseSync } from 'vite'

/**
 * A citation is an id of `requirements.ts` in brackets, `[core-6.1.3]` or `[core-9.5.post-both]`, any number of them in one title. It
 * counts in the title of `it`, `test` or `describe` (there it holds for each test inside), with or without `.each`, `.for`,
 * `.concurrent` or `.sequential`; and, where such a title has a placeholder, in the name of a row of its table: the first string of
 * the row, or its key in a record given as `Object.entries(rows)`. What may be skipped proves nothing, so it cannot cite.
 */
export interface Citation {
  id: string
  line: number
  /** False: it stands where no citation counts. */
  counts: boolean
}

const anyCitation = /\[(core-[^\]\n]*)\]/g
const testFunctions = new Set(['it', 'test', 'describe'])
const modifiers = new Set(['each', 'for', 'concurrent', 'sequential'])

/** Finds the citations in the source of a test file. Throws when it does not parse. */
export function citationsIn(source: string, file: string): Citation[] {
  const { program, errors } = parseSync(file, source)
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`)
  const nodes = nodesOf(program)
  const titles = nodes.flatMap((node) => titlesOf(node, nodes))
  return [...source.matchAll(anyCitation)].map((match) => ({
    id: match[1] as string,
    line: source.slice(0, match.index).split('\n').length,
    counts: titles.some(({ start, end }) => start <= match.index && match.index < end)
  }))
}

interface Node {
  type: string
  start: number
  end: number
  [member: string]: unknown
}

const isNode = (value: unknown): value is Node => typeof (value as Node | null)?.type === 'string'

function nodesOf(root: unknown): Node[] {
  const found: Node[] = []
  const open = [root]
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (isNode(at)) found.push(at)
    if (typeof at === 'object' && at !== null) open.push(...Object.values(at).filter((part) => part != null))
  }
  return found
}

/** The strings that name tests in a call of a test function: its title, and its rows' names if the title has room for them. */
function titlesOf(node: Node, nodes: readonly Node[]): Node[] {
  if (node.type !== 'CallExpression') return []
  const title = (node['arguments'] as Node[])[0]
  if (title === undefined || !isText(title)) return []
  const table = tableOf(node['callee'] as Node)
  if (table === undefined) return []
  if (table === 'none' || !JSON.stringify(title).includes('%')) return [title]
  return [title, ...rowNames(table, nodes)]
}

const isText = ({ type, value }: Node): boolean =>
  type === 'TemplateLiteral' || (type === 'Literal' && typeof value === 'string')

/** The table of `it.each(table)`, `none` for `it`, undefined for what is no test function or may be skipped. */
function tableOf(callee: Node): Node | 'none' | undefined {
  if (callee.type === 'CallExpression') {
    return tableOf(callee['callee'] as Node) === 'none' ? (callee['arguments'] as Node[])[0] : undefined
  }
  if (callee.type === 'MemberExpression') {
    const { name } = callee['property'] as { name?: string }
    return modifiers.has(name ?? '') ? tableOf(callee['object'] as Node) : undefined
  }
  return callee.type === 'Identifier' && testFunctions.has(callee['name'] as string) ? 'none' : undefined
}

function rowNames(table: Node, nodes: readonly Node[]): Node[] {
  const resolved = resolve(table, nodes)
  if (resolved?.type === 'ArrayExpression') {
    return (resolved['elements'] as Node[])
      .map((row) => (row.type === 'ArrayExpression' ? (row['elements'] as Node[])[0] : row))
      .filter((name) => name !== undefined && isText(name)) as Node[]
  }
  if (resolved?.type === 'CallExpression') {
    const record = resolve((resolved['arguments'] as Node[])[0], nodes)
    return record?.type === 'ObjectExpression' ? (record['properties'] as Node[]).map((row) => row['key'] as Node) : []
  }
  return []
}

/** What a name stands for, without its type. */
function resolve(node: Node | undefined, nodes: readonly Node[]): Node | undefined {
  if (node?.type === 'TSAsExpression') return resolve(node['expression'] as Node, nodes)
  if (node?.type !== 'Identifier') return node
  const declaration = nodes.find(
    ({ type, id }) => type === 'VariableDeclarator' && (id as { name?: string }).name === node['name']
  )
  return resolve(declaration?.['init'] as Node | undefined, nodes)
}
