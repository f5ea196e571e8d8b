// Drives the built server in the directory given, on whatever Node runs this: real calls, kill -9, and the same log afterwards.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

const [root = '.'] = process.argv.slice(2)
const home = mkdtempSync(join(tmpdir(), 'toolwright-smoke-'))
const headers = { authorization: 'Bearer smoke', 'content-type': 'application/json' }

async function start() {
  const child = spawn(process.execPath, [join(root, 'dist/server/main.js'), '--port', '0'], {
    cwd: home,
    env: { ...process.env, TOOLWRIGHT_HOME: join(home, 'data'), TOOLWRIGHT_TOKEN: 'smoke' },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  let printed = ''
  child.stdout.on('data', (chunk) => (printed += chunk))
  while (!/listening on \S+\n/.test(printed)) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('the server ended before it listened')
    await pause(50)
  }
  const url = /listening on (\S+)/.exec(printed)?.[1]
  const request = async (path, body) => {
    const method = body === undefined ? 'GET' : 'POST'
    const answer = await fetch(url + path, { method, headers, body: body === undefined ? null : JSON.stringify(body) })
    assert.equal(answer.status, 200, `${method} ${path}`)
    return answer.json()
  }
  return { child, request }
}

const textOf = ({ content }) => content[0].text
let server
try {
  server = await start()
  const command = 'for i in 1 2 3; do echo line $i; done > lines.txt; echo done'
  const bash = await server.request('/invoke', { name: 'bash', arguments: { command, description: 'Write a file' } })
  assert.equal(textOf(bash), 'done\n[exit code: 0]')
  const read = await server.request('/invoke', { name: 'read', arguments: { file_path: 'lines.txt' } })
  assert.match(textOf(read), /line 3/)
  const calls = Array.from({ length: 60 }, () =>
    server.request('/invoke', { name: 'read', arguments: { file_path: 'lines.txt' } })
  )
  for (const answer of await Promise.all(calls)) assert.equal(answer.isError, false)
  const before = await server.request('/sessions/default/events?limit=500')
  server.child.kill('SIGKILL')
  await once(server.child, 'exit')

  server = await start()
  const after = await server.request('/sessions/default/events?limit=500')
  // What follows is the end of the turn that the kill left open.
  assert.ok(JSON.stringify(after.events).startsWith(JSON.stringify(before.events).slice(0, -1)))
  assert.equal(after.events.filter(({ type }) => type === 'tool/result').length, 62)
  server.child.kill('SIGTERM')
  const [code] = await once(server.child, 'exit')
  assert.equal(code, 0)
  process.stdout.write(`smoke: ${before.events.length} events outlived kill -9 on Node ${process.versions.node}\n`)
} finally {
  server?.child.kill('SIGKILL')
  rmSync(home, { recursive: true, force: true })
}
