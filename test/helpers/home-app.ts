import { readFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { onTestFinished } from 'vitest'
import { buildApp } from '../../server/app.ts'
import type { Role } from '../../server/auth/principal.ts'
import { loadConfig } from '../../server/config/load.ts'
import { bareTool } from './bare-tool.ts'
import { temporaryDirectory } from './temporary-directory.ts'

export interface HomeAnswer {
  status: number
  headers: Headers
  text: string
  body: any
}

/** The whole server on a home that outlives it, so that a test can stop it and start the next one there. */
export class HomeApp {
  readonly home: string
  app!: FastifyInstance
  #admin = ''
  readonly #settings: Record<string, string>
  readonly #tools: readonly string[]

  private constructor(settings: Record<string, string>, tools: readonly string[]) {
    this.home = settings['home'] ?? temporaryDirectory()
    this.#settings = settings
    this.#tools = tools
  }

  /** `tools` are registered globally at each start, beside the built-in ones. */
  static async start(settings: Record<string, string> = {}, tools: readonly string[] = []): Promise<HomeApp> {
    const made = new HomeApp(settings, tools)
    await made.open()
    onTestFinished(() => made.app.close())
    return made
  }

  async open(): Promise<void> {
    const flags = new Map(
      Object.entries({
        home: this.home,
        'log.level': 'silent',
        'codeRuntime.backend': 'off',
        'store.ballastBytes': '0',
        ...this.#settings
      })
    )
    this.app = await buildApp(loadConfig({ flags }).config)
    for (const name of this.#tools) this.app.tools.register(bareTool(name))
    await this.app.listen({ host: '127.0.0.1', port: 0 })
    this.#admin = (await readFile(join(this.home, 'admin-token'), 'utf8')).trim()
  }

  get admin(): string {
    return this.#admin
  }

  async restart(): Promise<void> {
    await this.app.close()
    await this.open()
  }

  async tokenFor(role: Role, scope: string): Promise<string> {
    return (await this.app.tokens.create({ label: role, role, scope })).token
  }

  /** One request, with the admin's token unless told; a string is sent as it is. */
  async ask(
    method: string,
    path: string,
    json?: unknown,
    { token = this.#admin, headers = {} }: { token?: string; headers?: Record<string, string> } = {}
  ): Promise<HomeAnswer> {
    const { port } = this.app.server.address() as AddressInfo
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(json !== undefined && { 'content-type': 'application/json' }),
        ...headers
      },
      ...(json !== undefined && { body: typeof json === 'string' ? json : JSON.stringify(json) })
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, body: text === '' ? null : JSON.parse(text) }
  }

  /** The names of the catalogue of a scope. */
  async names(scope: string): Promise<string[]> {
    const { body } = await this.ask('GET', `/scopes/${scope}/schemas`)
    return body.schemas.map(({ name }: { name: string }) => name)
  }
}

/** Status and error code in one. */
export const outcome = ({ status, body }: HomeAnswer): string => `${status} ${body?.error?.code ?? ''}`.trim()
