// The client that the conformance suite starts, with the address of its server last: Toolwright brings that server in and calls each of its
// tools once. It runs on the Node of the path, as the server does.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

// Not offered, and no start of a server is needed to see that.
if (process.env.MCP_CONFORMANCE_SCENARIO?.startsWith('auth/')) throw new Error('it signs in nowhere')

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const home = mkdtempSync(join(tmpdir(), 'toolwright-mcp-client-'))
const config = join(home, 'config.json')
const reached = { transport: 'streamable-http', url: process.argv.at(-1), failOnStartupError: true }
const settings = { home: join(home, 'data'), port: 0, log: { level: 'error' }, mcp: { servers: { suite: reached } } }
writeFileSync(config, JSON.stringify(settings))

const server = spawn(process.execPath, [join(root, 'dist/server/main.js'), '--config', config], {
  cwd: home,
  env: { ...process.env, TOOLWRIGHT_TOKEN: 'suite' },
  stdio: ['ignore', 'pipe', 'inherit']
})
const ended = once(server, 'exit')

/** @param {string} url @param {unknown} [json] @returns {Promise<any>} */
async function ask(url, json) {
  const response = await fetch(url, {
    headers: { authorization: 'Bearer suite', 'content-type': 'application/json' },
    ...(json !== undefined && { method: 'POST', body: JSON.stringify(json) })
  })
  if (!response.ok) throw new Error(await response.text())
  return response.json()
}

try {
  let printed = ''
  for await (const chunk of server.stdout) if (/listening on \S+/.test((printed += chunk))) break
  const url = /listening on (\S+)/.exec(printed)?.[1]
  if (url === undefined) throw new Error('the server did not come up')
  const { tools } = await ask(`${url}/mcp-servers/suite`)
  const { tools: catalogue } = await ask(`${url}/tools?scope=global`)
  for (const { name } of tools) {
    const { properties = {} } = catalogue.find((/** @type {any} */ tool) => tool.name === name).parameters
    const numbers = Object.fromEntries(Object.keys(properties).map((property, at) => [property, at + 2]))
    const { isError, content } = await ask(`${url}/invoke`, { name, arguments: numbers })
    if (isError) throw new Error(`${name}: ${JSON.stringify(content)}`)
  }
} finally {
  server.kill('SIGTERM')
  await ended
  rmSync(home, { recursive: true, force: true })
}
