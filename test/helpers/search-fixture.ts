import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import glob, { type GlobOptions } from '../../plugins/tools/glob.ts'
import grep from '../../plugins/tools/grep.ts'
import { LocalFiles } from '../../server/backends/files/local-files.ts'
import { Ripgrep } from '../../server/backends/search/ripgrep.ts'
import type { Search } from '../../server/backends/search/search.ts'
import { LocalSpill } from '../../server/backends/spill/local-spill.ts'
import type { SpillStore } from '../../server/backends/spill/spill.ts'
import { ManagedTrees } from '../../server/backends/subprocess/managed-trees.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import type { ToolResult } from '../../server/pipeline/result.ts'
import type { Agent } from '../../server/scopes/scope.ts'
import { PipelineFixture } from './pipeline-fixture.ts'
import { temporaryDirectory } from './temporary-directory.ts'

/** The tools `glob` and `grep` in a real pipeline, with a real ripgrep, in a directory of their own. */
export class SearchFixture {
  readonly fixture = new PipelineFixture({ traced: false })
  readonly cwd = temporaryDirectory()
  readonly data = join(temporaryDirectory(), 'data')
  readonly agent: Agent = this.fixture.agent('A')
  readonly #trees = new ManagedTrees({ dataDirectory: import.meta.dirname })

  static async open(
    options: Partial<GlobOptions> = {},
    { spill, fileSearch }: { spill?: SpillStore; fileSearch?: Search } = {}
  ): Promise<SearchFixture> {
    const made = new SearchFixture()
    mkdirSync(made.data)
    const services = new Map<string, unknown>(
      Object.entries({
        fileSearch: fileSearch ?? new Ripgrep(made.#trees, { maxRawOutputBytes: 20_000_000 }),
        files: new LocalFiles({ dataDirectory: made.data }),
        workspaces: { cwdOf: () => made.cwd },
        // Nothing is confined.
        sandboxPolicies: {
          policyFor: async () => ({ mode: 'danger-full-access', workspaceRoot: made.cwd }),
          wrap: (argv: readonly string[]) => ({ argv, env: {} })
        },
        spill: spill ?? new LocalSpill(join(made.data, 'spill'))
      })
    )
    const find = (name: string): unknown => services.get(name)
    const globOptions = { globMaxResults: 100, sampleOverCapGlobResults: false, ...options }
    await made.fixture.tools.mount(glob, globOptions, find)
    await made.fixture.tools.mount(grep, {}, find)
    return made
  }

  close(): Promise<void> {
    return this.#trees.dispose()
  }

  write(name: string, content = 'foo\n'): void {
    mkdirSync(dirname(join(this.cwd, name)), { recursive: true })
    writeFileSync(join(this.cwd, name), content)
  }

  call(name: 'glob' | 'grep', args: { [key: string]: JsonValue }, more: object = {}): Promise<ToolResult> {
    return this.fixture.call(name, args, { agent: this.agent, ...more })
  }

  /** The file that a capped result names. */
  saved(text: string): string {
    const [, locator = ''] = /all of them: (\S+) \(/.exec(text) ?? []
    return readFileSync(locator, 'utf8')
  }
}

/** The text of a result that is one text block. */
export function textIn({ content }: ToolResult): string {
  const [block] = content
  return content.length === 1 && block?.type === 'text' ? String(block['text']) : ''
}
