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

/**
 * `my-tool_x` as `MyToolX`, an identifier in the same letters or in ASCII alone: `Tool` comes before what could not start one
 * (code-mode.md §4.4).
 */
export function camelCase(name: string, letters: 'unicode' | 'ascii' = 'unicode'): string {
  const separator = letters === 'ascii' ? /[^A-Za-z0-9]+/ : /(?:[^\p{XID_Continue}]|_)+/u
  const joined = name.split(separator).map(upperFirst).join('').normalize('NFKC')
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
  return first.toUpperCase() + part.slice(first.length)
}
