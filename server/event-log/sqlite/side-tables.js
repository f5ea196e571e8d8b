import { pack, unpack } from '../blobs.js'

/** @typedef {import('../event-log.ts').Cell} Cell */
/** @typedef {import('../event-log.ts').Row} Row */
/** @typedef {import('../event-log.ts').TableName} TableName */
/** @typedef {import('./protocol.ts').WireWrite} WireWrite */
/** @typedef {import('./protocol.ts').WriteShape} WriteShape */
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

  /** @type {Map<number, ReturnType<typeof planOf>>} */
  const plans = new Map()

  /** @param {WriteShape} shape */
  function planOf({ table, op, columns: names, conditions }) {
    const of = known(table)
    const key = tables[table].key
    for (const name of [...names, ...conditions]) {
      if (!of.has(name)) throw new RefusedWrite('invalid', `no column ${table}.${name}`)
    }
    const keyAt = key.map((name) => {
      if (!names.includes(name)) throw new RefusedWrite('invalid', `no ${table}.${name} in the row`)
      return names.indexOf(name)
    })
    const restAt = [...names.keys()].filter((at) => !keyAt.includes(at))
    const matchAt = [...keyAt, ...conditions.map((_, at) => names.length + at)]
    const match = equal([...key, ...conditions])
    const set = restAt.map((at) => `${names[at]} = ?`).join(', ')
    return {
      keyAt,
      packedAt: [...names.keys()].filter((at) => of.get(/** @type {string} */ (names[at]))?.packed === true),
      changedAt: op === 'delete' ? keyAt : [...restAt, ...matchAt],
      change:
        op === 'insert'
          ? undefined
          : statement(
              op === 'delete'
                ? `DELETE FROM ${table} WHERE ${equal(key)}`
                : set === ''
                  ? `SELECT count(*) FROM ${table} WHERE ${match}`
                  : `UPDATE ${table} SET ${set} WHERE ${match}`
            ),
      onlyLooks: set === '' && op !== 'delete',
      insert:
        op === 'insert' || op === 'put'
          ? statement(`INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`)
          : undefined
    }
  }

  /**
   * @param {WireWrite} write
   * @param {number} firstSeq what a cell of 0 stands for where the shape says that it is a seq
   */
  function apply([shape, given], firstSeq) {
    let plan = plans.get(shape.id)
    if (plan === undefined) {
      plan = planOf(shape)
      plans.set(shape.id, plan)
    }
    /** @type {(Cell | Buffer)[]} */
    const cells = [...given]
    for (const at of shape.seqs) cells[at] = firstSeq + Number(cells[at])
    for (const at of plan.packedAt) if (typeof cells[at] === 'string') cells[at] = pack(cells[at])
    for (const at of plan.keyAt) {
      if (cells[at] == null) throw new RefusedWrite('invalid', `no ${shape.table}.${shape.columns[at]} in the row`)
    }
    if (plan.change !== undefined) {
      const bound = plan.changedAt.map((at) => /** @type {Cell | Buffer} */ (cells[at]))
      const changes = plan.onlyLooks ? Number(plan.change.pluck().get(bound)) : plan.change.run(bound).changes
      if (changes > 0 || shape.op === 'delete') return
      if (shape.op === 'update') throw new RefusedWrite('conflict', `no such row in ${shape.table}`, shape.table)
    }
    plan.insert?.run(cells.slice(0, shape.columns.length))
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
