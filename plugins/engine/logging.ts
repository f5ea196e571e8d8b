import { type DestinationStream, destination, type Logger, pino } from 'pino'
import type { Config } from '../../server/config/schema.ts'

interface LoggedRequest {
  method?: string
  url?: string
  ip?: string
}

/**
 * The server's log: JSON lines on standard error, since standard output belongs to the start-up lines and to stdio protocols.
 * A URL is logged without its query and no header is logged, so that a token that came in either stays out; `secrets` (texts of
 * the configuration's own) are struck out of every line, wherever they came from (reliability.md §1.2, §1.10).
 */
export function createLogger(
  { level }: Config['log'],
  {
    secrets = [],
    stream = destination({ dest: 2, sync: true })
  }: { secrets?: readonly string[]; stream?: DestinationStream } = {}
): Logger {
  // A secret stands in the line as JSON text would write it.
  const written = secrets.filter((secret) => secret !== '').map((secret) => JSON.stringify(secret).slice(1, -1))
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
      ...(written.length > 0 && {
        hooks: {
          streamWrite: (line: string) => written.reduce((text, secret) => text.replaceAll(secret, '[secret]'), line)
        }
      })
    },
    stream
  )
}
