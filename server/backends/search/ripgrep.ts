import { stat } from 'node:fs/promises'
import type { ExitFacts, ProcessHandle, Subprocesses } from '../subprocess/subprocess.ts'
import { invalidPattern, searchFailure } from './ripgrep-errors.ts'
import { ByteRecords, decodeText, readMatch } from './ripgrep-output.ts'
import { type Search, SearchError, type SearchMatch, type SearchPlace } from './search.ts'

/** Kept of what ripgrep says on standard error: its last bytes (backends.md §6.8). */
const STDERR_BYTES = 65_536
/** From SIGTERM to SIGKILL; ripgrep holds nothing that it would have to put away. */
const GRACE_MS = 1_000
/** The system takes no longer argument than twice this. */
const MAX_PATTERN_BYTES = 65_536
/** Directories in which version control keeps its own files. */
const versionControl = ['.git', '.svn', '.hg', '.bzr', '.jj', '.sl']
const NEWLINE = 10

export interface RipgrepOptions {
  /** Output of ripgrep beyond which a search fails (backends.md §6.8). */
  maxRawOutputBytes: number
  /** The program. By default the one that came with the server, looked for when it is first needed. */
  program?: () => Promise<string>
}

/**
 * Searches with ripgrep, one process a search. `--no-config` keeps a configuration of the host out, which could name a program to run;
 * patterns are bound to their option, so that none is taken for another one.
 */
export class Ripgrep implements Search {
  readonly #subprocesses: Subprocesses
  readonly #maxRawOutputBytes: number
  readonly #program: () => Promise<string>

  constructor(subprocesses: Subprocesses, { maxRawOutputBytes, program = packagedProgram }: RipgrepOptions) {
    this.#subprocesses = subprocesses
    this.#maxRawOutputBytes = maxRawOutputBytes
    this.#program = program
  }

  async files(glob: string, place: SearchPlace): Promise<string[]> {
    assertUsable(glob)
    if (!(await kindOf(place)).isDirectory()) throw new SearchError('SEARCH_FAILED', `${place.root}: not a directory`)
    const found: string[] = []
    await this.#run(
      [
        ...['--files', '--null', `--glob=${asGlob(glob)}`, '--sort=modified', '--no-ignore', '--hidden'],
        ...versionControl.flatMap((name) => [`--glob=!**/${name}`, `--glob=!**/${name}/**`])
      ],
      place,
      { separator: 0, take: (record) => found.push(decodeText(record)) }
    )
    return found
  }

  async matches(pattern: string, { include, ...place }: SearchPlace & { include?: string }): Promise<SearchMatch[]> {
    assertUsable(pattern)
    if (include !== undefined) assertUsable(include)
    const kind = await kindOf(place)
    // Reading a pipe or a device would never end.
    if (!kind.isFile() && !kind.isDirectory())
      throw new SearchError('SEARCH_FAILED', `${place.root}: neither a file nor a directory`)
    const found: SearchMatch[] = []
    await this.#run(
      ['--json', `--regexp=${pattern}`, ...(include === undefined ? [] : [`--glob=${asGlob(include)}`])],
      place,
      {
        separator: NEWLINE,
        take: (record) => {
          const match = readMatch(record)
          if (match !== undefined) found.push(match)
        }
      }
    )
    // Files are searched side by side and come in any order; a list that is cut must be cut at the same place every time.
    return found.toSorted((a, b) => (a.path < b.path ? -1 : Number(a.path > b.path)) || a.lineNumber - b.lineNumber)
  }

  /** Hands over each record of the output as it comes. Rejects unless ripgrep says that it searched everything. */
  async #run(
    args: readonly string[],
    place: SearchPlace,
    { separator, take }: { separator: number; take: (record: Buffer) => void }
  ): Promise<void> {
    const { root, signal } = place
    const handle = await this.#start([...args, '--', root], place)
    const records = new ByteRecords(separator, this.#maxRawOutputBytes, take)
    let failure: unknown
    try {
      for await (const chunk of handle.stdout ?? []) records.write(chunk as Buffer)
    } catch (error) {
      failure = error
      handle.terminate()
    }
    const exit = await exitOf(handle)
    if (signal.aborted) throw new SearchError('SEARCH_ABORTED', 'the search was cancelled')
    if (failure !== undefined) throw failure
    const stderr = await handle.collected.stderr?.readFrom(0)
    if (exit.exitCode !== 0 && exit.exitCode !== 1) throw searchFailure(exit, stderr?.text ?? '')
    if (records.hasRest) throw new SearchError('SEARCH_FAILED', 'the output of ripgrep ends in the middle')
  }

  async #start(args: readonly string[], { cwd, signal, confine }: SearchPlace): Promise<ProcessHandle> {
    if (signal.aborted) throw new SearchError('SEARCH_ABORTED', 'the search was cancelled')
    try {
      const plain = [await this.#program(), '--no-config', ...args] as const
      const { argv, env } = confine?.(plain) ?? { argv: plain, env: {} }
      return this.#subprocesses.spawn({
        argv,
        env,
        cwd,
        stdin: 'ignore',
        stdout: 'pipe',
        stderr: { maxBytes: STDERR_BYTES },
        graceMs: GRACE_MS,
        signal
      })
    } catch (error) {
      if (signal.aborted) throw new SearchError('SEARCH_ABORTED', 'the search was cancelled')
      throw notStarted(error)
    }
  }
}

const notStarted = (cause: unknown): SearchError =>
  new SearchError('SEARCH_FAILED', `ripgrep could not be started: ${(cause as Error).message}`, { cause })

async function exitOf(handle: ProcessHandle): Promise<ExitFacts> {
  try {
    return await handle.done
  } catch (error) {
    throw notStarted(error)
  }
}

async function packagedProgram(): Promise<string> {
  // The package throws when its part for this platform is missing, which is no reason not to start the server.
  const { rgPath } = await import('@vscode/ripgrep')
  return rgPath
}

/** What no argument of a program can be. */
function assertUsable(pattern: string): void {
  if (pattern.includes('\0')) throw invalidPattern('it has a NUL character, which nothing can match')
  if (Buffer.byteLength(pattern) > MAX_PATTERN_BYTES)
    throw invalidPattern(`it is longer than ${MAX_PATTERN_BYTES} bytes`)
}

/** A glob as it is meant: ripgrep reads it as a line of an ignore file, where `#` begins a comment and a space at the end is lost. */
const asGlob = (glob: string): string => glob.replace(/^#/, '[#]').replace(/(?<!\\)\s$/, (space) => `[${space}]`)

async function kindOf({ root }: SearchPlace) {
  try {
    return await stat(root)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const phrase =
      code === 'ENOENT' || code === 'ENOTDIR' ? 'there is no such file or directory' : `it cannot be read (${code})`
    throw new SearchError('SEARCH_FAILED', `${root}: ${phrase}`, { cause: error })
  }
}
