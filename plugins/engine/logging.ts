import { type DestinationStream, destination, type Logger, pino } from 'pino'
import type { Config } from '../../server/config/schema.ts'
import type { StrikeOut } from '../../server/json/strike-out.ts'

interface LoggedRequest {
  method?: string
  url?: string
  ip?: string
}

/**
 * The server's log: JSON lines on standard error, since standard output belongs to the start-up lines and to stdio protocols.
 * A URL is logged without its query and no header is logged, so that a token that came in either stays out; secrets that the
 * configuration names are struck out of every line, wherever they came from (reliability.md §1.2, §1.10).
 */
export function createLogger(
  { level }: Config['log'],
  {
    strikeOut,
    stream = destination({ dest: 2, sync: true })
  }: { strikeOut?: StrikeOut | undefined; stream?: DestinationStream } = {}
): Logger {
  return pino(
    {
      level,
      base: { pid: process.pid },
      serializers: {
        req: ({ method, url, ip }: LoggedRequest) => ({ method, url: url?.replace(/[?#].*$/s, ''), remoteAddress: ip }),
        res: ({ statusCode }: { statusCode?: number }) => ({ statusCode }),
        err: pino.stdSerializers.err
      },
      redact: {
        paths: ['token', '*.token', 'authorization', '*.authorization', 'headers', '*.headers'],
        censor: '[secret]'
      },
      ...(strikeOut && { hooks: { streamWrite: strikeOut } })
    },
    stream
  )
}
