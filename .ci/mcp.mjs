// Other people's MCP clients against the endpoint of the built server, and the conformance suite: `mcp.mjs ROOT CLIENTS`, where CLIENTS is the
// directory that the clients were installed in. Runs on the Node that they need; the server runs on the one of the path.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const [root = '.', clients = '.'] = process.argv.slice(2).map((path) => resolve(path))
const home = mkdtempSync(join(tmpdir(), 'toolwright-mcp-'))
const authorization = 'Bearer mcp-token'
const path = '/scopes/global/mcp'
const run = promisify(execFile)

/** The built server with the tools that the suite asks for. */
async function startServer() {
  const config = join(home, 'config.json')
  const plugins = [join(root, 'test/fixtures/mcp-conformance.mjs')]
  writeFileSync(config, JSON.stringify({ home: join(home, 'data'), port: 0, plugins, log: { level: 'error' } }))
  const child = spawn('node', [join(root, 'dist/server/main.js'), '--config', config], {
    cwd: home,
    env: { ...process.env, TOOLWRIGHT_TOKEN: authorization.split(' ')[1] },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const url = await new Promise((done, fail) => {
    let printed = ''
    child.once('exit', (code) => fail(new Error(`the server ended with ${code} before it listened`)))
    child.stdout.on('data', (chunk) => {
      printed += chunk
      const match = /listening on (\S+)/.exec(printed)
      if (match) done(match[1])
    })
  })
  return { child, url }
}

/** The suite has no option for a token: it goes through a proxy that adds one, and changes nothing else but its own name. */
async function startProxy(url) {
  const { host, hostname, port } = new URL(url)
  const proxy = createServer((incoming, answer) => {
    const own = `127.0.0.1:${proxy.address().port}`
    const headers = { ...incoming.headers, authorization }
    for (const name of ['host', 'origin']) if (headers[name]) headers[name] = headers[name].replace(own, host)
    const { method, url: target } = incoming
    const outgoing = request({ hostname, port, method, path: target, headers }, (response) => {
      answer.writeHead(response.statusCode, response.headers)
      response.pipe(answer)
      answer.once('close', () => response.destroy())
    })
    outgoing.once('error', () => answer.destroy())
    incoming.pipe(outgoing)
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  return proxy
}

/** Some scenarios judge moments, which a busy machine may miss; what is wrong is wrong every time. */
const tries = 3

/** The scenarios for a server, or those for a client; resolves to its totals where those fail that the baseline names, and no others. */
async function conformance(kind, args) {
  const suite = fileURLToPath(import.meta.resolve('@modelcontextprotocol/conformance/dist/index.js'))
  const baseline = join(root, '.ci/conformance-baseline.yml')
  const output = join(home, `conformance-${kind}`)
  const all = [suite, kind, ...args, '--expected-failures', baseline, '-o', output]
  for (let left = tries; ; left -= 1) {
    const { stdout, stderr } = await run(process.execPath, all, { cwd: root }).catch((error) => error)
    const summary = stdout.slice(stdout.search(/=== (SUITE )?SUMMARY ===/))
    if (/Baseline check passed/.test(summary)) return /Total: .*/.exec(summary)?.[0]
    if (left === 1)
      throw new Error(`the conformance of the ${kind} is not as its baseline says:\n${summary}\n${stderr}`)
  }
}

/** The command line of the MCP Inspector. */
async function inspector(url) {
  const folder = join(clients, 'node_modules/@modelcontextprotocol/inspector')
  const { bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const ask = async (...args) => {
    const fixed = ['--cli', url, '--transport', 'http', '--header', `Authorization: ${authorization}`]
    const { stdout } = await run(process.execPath, [join(folder, Object.values(bin)[0]), ...fixed, ...args])
    return JSON.parse(stdout)
  }
  const { tools } = await ask('--method', 'tools/list')
  assert.ok(tools.some(({ name }) => name === 'read'))
  const call = ['--method', 'tools/call', '--tool-name', 'test_simple_text']
  assert.equal((await ask(...call)).content[0].text, 'This is a simple text response for testing.')
}

/** The MCP client of the AI SDK. */
async function aiSdk(url) {
  const resolved = createRequire(join(clients, 'package.json')).resolve('@ai-sdk/mcp')
  const { createMCPClient } = await import(resolved)
  const client = await createMCPClient({ transport: { type: 'http', url, headers: { authorization } } })
  try {
    const tools = await client.tools()
    const result = await tools.bash.execute(
      { command: 'echo ok', description: 'Say ok' },
      { toolCallId: '1', messages: [] }
    )
    assert.match(result.content[0].text, /^ok\n/)
  } finally {
    await client.close()
  }
}

let server
let proxy
try {
  server = await startServer()
  proxy = await startProxy(server.url)
  const served = ['--url', `http://127.0.0.1:${proxy.address().port}${path}`, '--suite', 'all']
  const serverTotal = await conformance('server', served)
  const clientTotal = await conformance('client', ['--command', 'node .ci/mcp-client.mjs', '--suite', 'core'])
  await inspector(server.url + path)
  await aiSdk(server.url + path)
  process.stdout.write(
    `mcp: conformance of the server ${serverTotal}, of the client ${clientTotal}; Inspector and AI SDK served\n`
  )
} finally {
  proxy?.close()
  proxy?.closeAllConnections()
  if (server) {
    const ended = once(server.child, 'exit')
    server.child.kill('SIGTERM')
    await ended
  }
  rmSync(home, { recursive: true, force: true })
}
