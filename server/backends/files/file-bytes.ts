import type { BigIntStats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'

/** A NUL in so many first bytes makes a file binary (backends.md §6.1). */
export const BINARY_PROBE_BYTES = 8192
const CHUNK_BYTES = 256 * 1024

/** The token of backends.md §6.1, which is another after every change. */
export const versionOf = (stats: Pick<BigIntStats, 'dev' | 'ino' | 'size' | 'mtimeNs' | 'ctimeNs'>): string =>
  [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(':')

/** Pieces of the file in one buffer that is used again for the next piece. */
export async function* chunksOf(file: FileHandle): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, null)
    if (bytesRead === 0) return
    yield buffer.subarray(0, bytesRead)
  }
}

/** All bytes; undefined when there are more than `maxBytes`, also if the file grows meanwhile. Rejects with the signal's reason. */
export async function readUpTo(file: FileHandle, maxBytes: number, signal?: AbortSignal): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let total = 0
  for await (const chunk of chunksOf(file)) {
    signal?.throwIfAborted()
    total += chunk.length
    if (total > maxBytes) return undefined
    chunks.push(Buffer.from(chunk))
  }
  return Buffer.concat(chunks)
}

/** Strict UTF-8, a byte order mark kept; undefined for anything else. */
export function decodeText(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}
