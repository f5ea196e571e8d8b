import { type Cell, ConflictError, type Row, type TableName, type TableWrite, tables } from './event-log.ts'

/** Every column of the side tables and what an absent one gets; as the migrations declare them, which a test compares. */
export const blankRows: Record<TableName, Row> = {
  sessions: {
    id: null,
    scope: null,
    cwd: null,
    created_at: null,
    turn: 0,
    turn_open: 0,
    step: 0,
    first_seq: 0,
    anchor: null,
    contexts: null,
    sandbox_mode: null,
    approval_policy: null,
    preset: null
  },
  calls: {
    session: null,
    call_id: null,
    name: null,
    args_hash: null,
    turn: null,
    step: null,
    state: null,
    call_seq: null,
    result_seq: null,
    accepted_at: null,
    started_at: null,
    duration_ms: null,
    input: null,
    outcome: null
  },
  registrations: { kind: null, scope: null, name: null, data: null, created_at: null },
  approvals: {
    id: null,
    session: null,
    scope: null,
    call_id: null,
    kind: null,
    state: null,
    hash: null,
    data: null,
    created_at: null,
    expires_at: null,
    decided_at: null,
    decided_by: null,
    outcome: null,
    answer: null
  },
  access_tokens: {
    id: null,
    hash: null,
    role: null,
    scope: null,
    label: null,
    created_at: null,
    expires_at: null,
    last_used_at: null,
    revoked_at: null,
    previous_hash: null,
    previous_until: null
  },
  jobs: {
    id: null,
    session: null,
    kind: null,
    label: null,
    status: null,
    detail: null,
    started_at: null,
    finished_at: null
  },
  job_numbers: { kind: null, last: null }
}

/** The side tables of the log in memory: rows in order of insertion, changed only by `apply`. */
export class SideRows {
  readonly #tables = new Map<TableName, Map<string, Row>>()

  list(table: TableName, where: Row, limit: number): Row[] {
    for (const name of Object.keys(where)) assertColumn(table, name)
    const isKeyed = tables[table].key.every((name) => Object.hasOwn(where, name))
    const keyed = isKeyed ? this.get(table, where) : undefined
    const candidates = isKeyed ? (keyed === undefined ? [] : [keyed]) : [...this.#rowsOf(table).values()]
    const matches = candidates.filter((row) => isEqual(row, where))
    return matches.slice(0, limit).map((row) => ({ ...row }))
  }

  get(table: TableName, key: Row): Row | undefined {
    return this.#rowsOf(table).get(keyOf(table, key))
  }

  /** Makes one change and returns what undoes it; throws `ConflictError` as the contract says. */
  apply({ table, op, row: given, where = {} }: TableWrite, firstSeq: number): () => void {
    for (const name of [...Object.keys(given), ...Object.keys(where)]) assertColumn(table, name)
    const row = Object.fromEntries(
      Object.entries(given).map(([name, cell]): [string, Cell] => [name, isSeqOf(cell) ? firstSeq + cell.seqOf : cell])
    )
    const key = keyOf(table, row)
    const rows = this.#rowsOf(table)
    const before = rows.get(key)
    if (op === 'insert' && before !== undefined) throw new ConflictError(table, `the key is taken in ${table}`)
    if (op === 'update' && (before === undefined || !isEqual(before, where))) {
      throw new ConflictError(table, `no such row in ${table}`)
    }
    const undos = op === 'delete' && table === 'sessions' ? this.#deleteOf(row['id'] ?? null) : []
    if (op === 'delete') rows.delete(key)
    else rows.set(key, { ...(before ?? blankRows[table]), ...row })
    return () => {
      if (before === undefined) rows.delete(key)
      else rows.set(key, before)
      for (const undo of undos) undo()
    }
  }

  /** What goes with a session. */
  #deleteOf(session: Cell): (() => void)[] {
    return (['calls', 'approvals'] as const).flatMap((table) => {
      const rows = this.#rowsOf(table)
      const gone = [...rows].filter(([, row]) => row['session'] === session)
      for (const [key] of gone) rows.delete(key)
      return gone.map(
        ([key, row]) =>
          () =>
            void rows.set(key, row)
      )
    })
  }

  #rowsOf(table: TableName): Map<string, Row> {
    const rows = this.#tables.get(table) ?? new Map<string, Row>()
    this.#tables.set(table, rows)
    return rows
  }
}

function keyOf(table: TableName, row: Row): string {
  return JSON.stringify(tables[table].key.map((name) => row[name] ?? null))
}

function isEqual(row: Row, where: Row): boolean {
  return Object.entries(where).every(([name, cell]) => (row[name] ?? null) === cell)
}

function isSeqOf(cell: Cell | { seqOf: number }): cell is { seqOf: number } {
  return typeof cell === 'object' && cell !== null
}

function assertColumn(table: TableName, name: string): void {
  if (!Object.hasOwn(blankRows[table], name)) throw new TypeError(`no column ${table}.${name}`)
}
