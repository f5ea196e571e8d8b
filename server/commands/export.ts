import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import { UsageError } from '../command-line.ts'
import { UnreachableError, withClient } from './client.ts'
import { defineCommand } from './command.ts'
import { connectionOptions } from './connection.ts'

export const exportSession = defineCommand({
  name: 'export',
  usage: 'SESSION [FILE]',
  summary: 'write a session as zstd-compressed JSON lines',
  details: [
    'The first line is the header, each further line one event. FILE must not be there yet, and is taken away again when the export breaks off; without it the export goes to standard output. `toolwright verify FILE` reads it from end to end.'
  ],
  options: connectionOptions,
  examples: [
    ['export s-42 s-42.jsonl.zstd', 'into a file'],
    ['export s-42 | zstdcat | jq .type', 'through a pipe']
  ],
  run: ({ values, positionals: [session = '', file], env, out }) =>
    withClient(values, env, async (client) => {
      if (file === undefined && out.isTerminal) {
        throw new UsageError('an export is no text for a terminal; name a FILE or use a pipe')
      }
      const { body } = await client.send(`/sessions/${encodeURIComponent(session)}/export`)
      const chunks = Readable.fromWeb(body as ReadableStream<Uint8Array>)
      if (file === undefined) {
        for await (const chunk of readable(chunks)) out.bytes(chunk)
        return
      }
      let isOurs = false
      const target = createWriteStream(file, { flags: 'wx', mode: 0o600, flush: true }).once(
        'open',
        () => (isOurs = true)
      )
      try {
        await pipeline(readable(chunks), target)
      } catch (error) {
        if (isOurs) await rm(file, { force: true })
        throw error instanceof UnreachableError ? error : new FileError((error as Error).message)
      }
    })
})

/** A file cannot be written; the process exits with 78. */
class FileError extends Error {
  readonly exitCode = 78
}

async function* readable(chunks: Readable): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks
  } catch (error) {
    throw new UnreachableError('the export broke off before its end', { cause: error })
  }
}
