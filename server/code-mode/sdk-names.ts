const longestName = 120

/** Gives out names: the first to ask for one has it as it is, the next ones with 2, 3, … behind it (code-mode.md §4.4). */
export class NameAllocator {
  readonly #taken: Set<string>
  // Where to go on counting: thousands of equal bases must not each count from 2.
  readonly #next = new Map<string, number>()

  constructor(reserved: Iterable<string>) {
    this.#taken = new Set(reserved)
  }

  allocate(base: string): string {
    let name = base
    let count = this.#next.get(base) ?? 2
    while (this.#taken.has(name)) {
      name = `${base}${count}`
      count += 1
    }
    this.#next.set(base, count)
    this.#taken.add(name)
    return name
  }
}

// Letters that came with Unicode 15 to 17, whose use in an identifier CPython 3.11 (Unicode 14) refuses; ranges take in what is unassigned.
const recentLetters =
  /[\u{88f}-\u{897}\u{c5c}\u{cdc}\u{cf3}\u{ece}\u{1acf}-\u{1aeb}\u{1c89}-\u{1c8a}\u{200c}-\u{200d}\u{30fb}\u{a7cb}-\u{a7cf}\u{a7d2}\u{a7d4}\u{a7da}-\u{a7f1}\u{ff65}\u{105c0}-\u{105f3}\u{10940}-\u{10959}\u{10d40}-\u{10d85}\u{10ec2}-\u{10eff}\u{1123f}-\u{11241}\u{11380}-\u{113e2}\u{116d0}-\u{116e3}\u{11b60}-\u{11bf9}\u{11db0}-\u{11de9}\u{11f00}-\u{11f5a}\u{1342f}-\u{143fa}\u{16100}-\u{16139}\u{16d40}-\u{16d79}\u{16ea0}-\u{16ed3}\u{16ff2}-\u{16ff6}\u{187f8}-\u{187ff}\u{18cff}\u{18d09}-\u{18df2}\u{1b132}\u{1b155}\u{1ccf0}-\u{1ccf9}\u{1df25}-\u{1df2a}\u{1e030}-\u{1e08f}\u{1e4d0}-\u{1e6ff}\u{2b739}-\u{2b73f}\u{2cea2}-\u{2cead}\u{2ebf0}-\u{2ee5d}\u{31350}-\u{33479}]/u

// The hard keywords of Python 3; soft ones (match, case, type, _) are ordinary names.
const keywords = new Set(
  (
    'False None True and as assert async await break class continue def del elif else except finally for from global if import in is ' +
    'lambda nonlocal not or pass raise return try while with yield __debug__'
  ).split(' ')
)

/**
 * Whether CPython takes the name as an identifier and keeps it as it is: it folds identifiers to NFKC, while the keys of JSON are
 * compared as they are (code-mode.md §4.4).
 */
export function isIdentifier(name: string): boolean {
  const hasForm = /^[\p{XID_Start}_]\p{XID_Continue}*$/u.test(name) && !recentLetters.test(name)
  return hasForm && !keywords.has(name) && name.normalize('NFKC') === name
}

const separator = new RegExp(`${recentLetters.source}|[^\\p{XID_Continue}]|_`, 'u')

/**
 * `my-tool_x` as `MyToolX`, an identifier in the same letters or in ASCII alone: `Tool` comes before what could not start one
 * (code-mode.md §4.4).
 */
export function camelCase(name: string, letters: 'unicode' | 'ascii' = 'unicode'): string {
  const joined = name
    .split(letters === 'ascii' ? /[^A-Za-z0-9]/ : separator)
    .map(upperFirst)
    .join('')
    .normalize('NFKC')
  return /^\p{XID_Start}/u.test(joined) ? joined : `Tool${joined}`.normalize('NFKC')
}

/** A longer name for a part: at most 120 UTF-16 units, in the form that CPython gives identifiers (NFKC). */
export function joinName(base: string, suffix: string): string {
  return cut(`${base}${suffix}`.normalize('NFKC'))
}

// Never between the halves of a surrogate pair.
function cut(name: string): string {
  if (name.length <= longestName) return name
  const end = /[\uD800-\uDBFF]/.test(name[longestName - 1]!) ? longestName - 1 : longestName
  return name.slice(0, end)
}

function upperFirst(part: string): string {
  const [first = ''] = part
  const upper = first.toUpperCase()
  return (recentLetters.test(upper) ? first : upper) + part.slice(first.length)
}
