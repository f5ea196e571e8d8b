import { randomBytes } from 'node:crypto'
import { closeSync, constants, fchmodSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * What a command is to read, as a file without a name: the descriptor for it, which whoever takes it closes. What Node makes for a child is a
 * socket, which `cat /dev/stdin` cannot open; a pipe with a name would keep who opens it waiting once all is written. Undefined where there is
 * no room.
 * @param {string | Uint8Array} data @returns {number | undefined}
 */
export function openInputFile(data) {
  const path = join(tmpdir(), `toolwright-input-${randomBytes(8).toString('hex')}`)
  /** @type {number[]} */
  const opened = []
  try {
    const writer = openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600)
    opened.push(writer)
    const reader = openSync(path, constants.O_RDONLY)
    opened.push(reader)
    rmSync(path)
    // Nobody else can by now, but whoever the command is run as must be able to open it.
    fchmodSync(writer, 0o444)
    writeFileSync(writer, data)
    closeSync(writer)
    return reader
  } catch {
    rmSync(path, { force: true })
    for (const descriptor of opened) closeSync(descriptor)
    return undefined
  }
}
