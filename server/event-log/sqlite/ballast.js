import { closeSync, fsyncSync, openSync, rmSync, statfsSync, statSync, writeSync } from 'node:fs'
import path from 'node:path'

// Space that must be free beside a new ballast, or the disk would be full again at once.
const margin = 4 * 1024 * 1024

/**
 * The reserve: a file whose deletion makes room for closing results and decisions on a full disk (reliability.md C6).
 * @param {string} file
 * @param {number} bytes 0: none
 */
export function openBallast(file, bytes) {
  return {
    /** Whether the file stands at its full size. */
    isThere() {
      return bytes === 0 || statSync(file, { throwIfNoEntry: false })?.size === bytes
    },
    release() {
      rmSync(file, { force: true })
    },
    /** Makes it again; `false` when there is no room for it and some more. */
    restore() {
      const { bavail, bsize } = statfsSync(path.dirname(file))
      if (bavail * bsize < (this.isThere() ? 0 : bytes) + margin) return false
      if (!this.isThere()) write(file, bytes)
      return true
    }
  }
}

/**
 * @param {string} file
 * @param {number} bytes
 */
function write(file, bytes) {
  const handle = openSync(file, 'w')
  try {
    const chunk = Buffer.alloc(Math.min(bytes, 1024 * 1024))
    for (let written = 0; written < bytes;)
      written += writeSync(handle, chunk, 0, Math.min(chunk.length, bytes - written))
    fsyncSync(handle)
  } catch (error) {
    rmSync(file, { force: true })
    throw error
  } finally {
    closeSync(handle)
  }
}
