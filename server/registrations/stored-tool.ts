import type { EventLog, Row, TableWrite } from '../event-log/event-log.ts'
import type { WireToolFields } from '../executors/wire-tool.ts'
import type { JsonObject, JsonValue } from '../json/lossless.ts'
import { parseJson } from '../json/parse-text.js'
import { stringifyJson } from '../json/serialize.ts'

/** What runs a tool, as it was registered: `kind`, and what that kind needs. */
export type ExecutorSettings = JsonObject & { kind: string }

/** A tool as a client registers it (api.md §3). */
export interface WireRegistration {
  readonly tool: WireToolFields
  readonly executor: ExecutorSettings
}

/** A tool as it is stored. */
export interface StoredTool extends WireRegistration {
  /** Ids from the root to the parent of its scope: it comes back there and nowhere else. */
  readonly above: readonly string[]
  readonly createdAt: number
}

const toolKind = 'tool'

export const toolRows = { kind: toolKind } as const

/** Takes the place of a row of the same name, and becomes the youngest: rows are read in the order in which they were inserted. */
export const writeTool = (scope: string, { createdAt, ...data }: StoredTool): TableWrite[] => [
  eraseTool(scope, data.tool.name),
  {
    table: 'registrations',
    op: 'insert',
    row: {
      kind: toolKind,
      scope,
      name: data.tool.name,
      data: stringifyJson(data as unknown as JsonValue),
      created_at: createdAt
    }
  }
]

export const eraseTool = (scope: string, name: string): TableWrite => ({
  table: 'registrations',
  op: 'delete',
  row: { kind: toolKind, scope, name }
})

/** Throws for a row that this code did not write. */
export function readTool(row: Row): StoredTool {
  const data = parseJson(String(row['data'])) as unknown as Omit<StoredTool, 'createdAt'>
  if (!Array.isArray(data.above) || typeof data.executor?.kind !== 'string' || data.tool?.name !== row['name']) {
    throw new TypeError('not the row of a tool')
  }
  return { ...data, createdAt: Number(row['created_at']) }
}

export const toolRow = async (log: EventLog, scope: string, name: string): Promise<Row | undefined> =>
  (await log.rows('registrations', { kind: toolKind, scope, name }, 1))[0]
