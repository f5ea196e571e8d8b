// The server with a log in memory: what durability costs is the difference.
import { buildApp } from '../../server/app.ts'
import { configFromArguments } from '../../server/command-line.ts'
import { openMemoryLog } from '../../server/event-log/memory-log.ts'

const { config } = configFromArguments(process.argv.slice(2), process.env)
const app = await buildApp(config, { log: openMemoryLog() })
const address = await app.listen({ host: config.host, port: config.port })
process.stdout.write(`listening on ${address}\n`)
process.once('SIGTERM', () => void app.close())
