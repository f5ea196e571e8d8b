// `npm run bench [-- SECTION…]`: all sections, or those named.
import { benchBridge } from './bridge.ts'
import { benchCode } from './code.ts'
import { benchCommands } from './commands.ts'
import { benchFanOut } from './fan-out.ts'
import { benchInvoke } from './invoke.ts'
import { benchLog } from './log.ts'
import { benchMcp } from './mcp.ts'
import { benchPipeline } from './pipeline.ts'
import { benchPolicies } from './policies.ts'
import { benchProviders } from './providers.ts'
import { benchRead } from './read.ts'

const sections = new Map([
  ['invoke', benchInvoke],
  ['pipeline', benchPipeline],
  ['log', benchLog],
  ['fan-out', benchFanOut],
  ['read', benchRead],
  ['code', benchCode],
  ['commands', benchCommands],
  ['mcp', benchMcp],
  ['bridge', benchBridge],
  ['providers', benchProviders],
  ['policies', benchPolicies]
])
const asked = process.argv.slice(2)
const unknown = asked.filter((name) => !sections.has(name))
if (unknown.length > 0)
  throw new Error(`no section ${unknown.join(', ')}; there are ${[...sections.keys()].join(', ')}`)
for (const [name, run] of sections) {
  if (asked.length > 0 && !asked.includes(name)) continue
  await run()
  console.log('')
}
