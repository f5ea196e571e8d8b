import type { EventLog, TableWrite } from '../../event-log/event-log.ts'
import type { JsonObject } from '../../json/lossless.ts'
import { parseJson } from '../../json/parse-text.js'
import { stringifyJson } from '../../json/serialize.ts'

const kind = 'mcp-server'
const scope = 'global'
const maxRows = 100_000

/** A server as it was registered over the wire, secrets and all. */
export interface StoredServer {
  readonly name: string
  readonly given: JsonObject
}

/** The servers that were registered over the wire and are to come back after a restart (api.md §3, §6). */
export class StoredServers {
  readonly #log: EventLog

  constructor(log: EventLog) {
    this.#log = log
  }

  async all(warn: (name: string, error: unknown) => void): Promise<StoredServer[]> {
    const rows = await this.#log.rows('registrations', { kind }, maxRows)
    return rows.flatMap((row) => {
      const name = String(row['name'])
      try {
        return [{ name, given: parseJson(String(row['data'])) as JsonObject }]
      } catch (error) {
        warn(name, error)
        return []
      }
    })
  }

  async put({ name, given }: StoredServer, at: number): Promise<void> {
    const row = { kind, scope, name, data: stringifyJson(given), created_at: at }
    await this.#append({ table: 'registrations', op: 'put', row })
  }

  async remove(name: string): Promise<void> {
    await this.#append({ table: 'registrations', op: 'delete', row: { kind, scope, name } })
  }

  async #append(write: TableWrite): Promise<void> {
    await this.#log.append({ writes: [write] })
  }
}
