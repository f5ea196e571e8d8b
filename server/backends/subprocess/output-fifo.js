import { spawnSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Made at a time, as a program has to make them, which takes milliseconds. */
const BATCH = 32

/** @type {{ reader: number, writer: number }[]} */
const ready = []
let canMake = true

/**
 * A pipe for the output of a command: the stream of what comes, and the descriptor for the command, which whoever takes it closes. What Node
 * makes for a child is a socket, and a socket cannot be opened: `echo … > /dev/stderr` fails, and so does each script that says it.
 * Undefined where no pipes can be made.
 * @returns {{ stream: Socket, writer: number } | undefined}
 */
export function takeOutputFifo() {
  if (ready.length === 0) makeOutputFifos()
  const pipe = ready.pop()
  if (pipe === undefined) return undefined
  if (ready.length < 2) setImmediate(makeOutputFifos)
  return { stream: new Socket({ fd: pipe.reader, readable: true, writable: false }), writer: pipe.writer }
}

/** Makes more, unless there are some. Nothing of them is left in a directory. */
export function makeOutputFifos() {
  if (ready.length >= 2 || !canMake) return
  /** @type {string | undefined} */
  let directory
  try {
    const made = (directory = mkdtempSync(join(tmpdir(), 'toolwright-pipes-')))
    const paths = Array.from({ length: BATCH }, (_, at) => join(made, String(at)))
    // Whoever a command is run as must be able to open it.
    const { status } = spawnSync('mkfifo', ['-m', '666', ...paths], { stdio: 'ignore' })
    canMake = status === 0
    if (canMake) for (const path of paths) ready.push(opened(path))
  } catch {
    // No room, or no descriptors: a socket does for most commands.
  } finally {
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true })
  }
}

/** @param {string} path */
function opened(path) {
  // The other end would be waited for.
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    return { reader, writer: openSync(path, constants.O_WRONLY) }
  } catch (error) {
    closeSync(reader)
    throw error
  }
}
