import { pack, unpack } from '../blobs.js'

/** @typedef {import('../event-log.ts').Cell} Cell */
/** @typedef {import('../event-log.ts').Row} Row */
/** @typedef {import('../event-log.ts').TableName} TableName */
/** @typedef {import('../event-log.ts').TableWrite} TableWrite */
/** @typedef {Record<TableName, { readonly key: readonly string[] }>} Tables */
/** @typedef {Map<string, { packed: boolean }>} Columns */

/** A write is refused because of what the tables hold; the append fails and its batch goes on. */
export class RefusedWrite extends Error {
  /**
   * @param {'conflict' | 'invalid' | 'unknown-session' | 'damaged'} reason
   * @param {string} message
   * @param {string} [table]
   */
  constructor(reason, message, table = '') {
    super(message)
    this.reason = reason
    this.table = table
  }
}

/**
 * The statements of the tables beside the events, each prepared once and held for life: better-sqlite3 12 aborts the process
 * on newer Node when an unreferenced one is collected.
 * @param {import('better-sqlite3').Database} db
 * @param {Tables} tables
 */
export function openSideTables(db, tables) {
  /** @type {Map<string, import('better-sqlite3').Statement<Cell[] | (Cell | Buffer)[]>>} */
  const statements = new Map()
  const columns = new Map(Object.keys(tables).map((table) => [table, columnsOf(db, table)]))

  /** @param {string} sql */
  const statement = (sql) => {
    const known = statements.get(sql)
    if (known !== undefined) return known
    const made = db.prepare(sql)
    statements.set(sql, made)
    return made
  }
  /** @param {string} table */
  const known = (table) => {
    const found = columns.get(table)
    if (found === undefined) throw new RefusedWrite('invalid', `no table ${table}`)
    return found
  }

  /**
   * @param {TableWrite} write
   * @param {number} firstSeq what `{ seqOf: 0 }` stands for
   */
  function apply({ table, op, row: given, where = {} }, firstSeq) {
    const row = withSeqs(given, firstSeq)
    const of = known(table)
    const key = tables[table].key
    const names = Object.keys(row)
    for (const name of [...names, ...Object.keys(where)]) {
      if (!of.has(name)) throw new RefusedWrite('invalid', `no column ${table}.${name}`)
    }
    for (const name of key) if (row[name] == null) throw new RefusedWrite('invalid', `no ${table}.${name} in the row`)
    const rest = names.filter((name) => !key.includes(name))
    const cells = names.map((name) => cellOf(of, name, row[name]))
    if (op === 'delete') return void statement(`DELETE FROM ${table} WHERE ${equal(key)}`).run(...pick(row, key))
    if (op === 'insert') return insert(table, names, cells)

    const conditions = Object.keys(where)
    const changed =
      rest.length === 0
        ? Number(
            statement(`SELECT count(*) FROM ${table} WHERE ${equal([...key, ...conditions])}`)
              .pluck()
              .get(...pick(row, key), ...pick(where, conditions))
          )
        : statement(
            `UPDATE ${table} SET ${rest.map((name) => `${name} = ?`).join(', ')} WHERE ${equal([...key, ...conditions])}`
          ).run(...rest.map((name) => cellOf(of, name, row[name])), ...pick(row, key), ...pick(where, conditions))
            .changes
    if (changed > 0) return
    if (op === 'update') throw new RefusedWrite('conflict', `no such row in ${table}`, table)
    insert(table, names, cells)
  }

  /**
   * @param {string} table
   * @param {string[]} names
   * @param {(Cell | Buffer)[]} cells
   */
  function insert(table, names, cells) {
    statement(`INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`).run(...cells)
  }

  /**
   * Rows whose columns equal `where`, ordered by rowid.
   * @param {TableName} table
   * @param {Row} where
   * @param {number} limit
   * @returns {Row[]}
   */
  function rows(table, where, limit) {
    const of = known(table)
    const conditions = Object.keys(where)
    for (const name of conditions) {
      if (of.get(name)?.packed !== false) throw new RefusedWrite('invalid', `cannot look for ${table}.${name}`)
    }
    const filters = conditions.length === 0 ? [] : [equal(conditions)]
    // The index of the calls that have not ended is used only by a statement that says it wants no others.
    if (table === 'calls' && typeof where['state'] === 'string' && where['state'] !== 'done')
      filters.push("state <> 'done'")
    const filter = filters.length === 0 ? '' : `WHERE ${filters.join(' AND ')}`
    const found = /** @type {Record<string, Cell | Buffer>[]} */ (
      statement(`SELECT ${[...of.keys()].join(', ')} FROM ${table} ${filter} ORDER BY rowid LIMIT ?`).all(
        ...pick(where, conditions),
        limit
      )
    )
    return found.map((row) => {
      for (const [name, cell] of Object.entries(row)) if (Buffer.isBuffer(cell)) row[name] = unpack(cell)
      return /** @type {Row} */ (row)
    })
  }

  return { apply, rows }
}

/**
 * @param {import('better-sqlite3').Database} db
 * @param {string} table
 * @returns {Columns}
 */
function columnsOf(db, table) {
  const info = /** @type {{ name: string, type: string }[]} */ (db.pragma(`table_info(${table})`))
  return new Map(info.map(({ name, type }) => [name, { packed: type === 'ANY' }]))
}

/**
 * @param {Columns} columns
 * @param {string} name
 * @param {Cell | undefined} cell
 */
function cellOf(columns, name, cell = null) {
  return typeof cell === 'string' && columns.get(name)?.packed === true ? pack(cell) : cell
}

/**
 * @param {TableWrite['row']} row
 * @param {number} firstSeq
 * @returns {Row}
 */
function withSeqs(row, firstSeq) {
  const cells = Object.entries(row).map(([name, cell]) => [
    name,
    cell !== null && typeof cell === 'object' ? firstSeq + cell.seqOf : cell
  ])
  return Object.fromEntries(cells)
}

/** @param {readonly string[]} names */
function equal(names) {
  return names.map((name) => `${name} IS ?`).join(' AND ')
}

/**
 * @param {Row} row
 * @param {readonly string[]} names
 * @returns {Cell[]}
 */
function pick(row, names) {
  return names.map((name) => row[name] ?? null)
}
