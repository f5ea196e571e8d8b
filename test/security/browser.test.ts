import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { execa } from 'execa'
import { describe, expect, it, onTestFinished } from 'vitest'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { startWireApp } from '../helpers/wire-app.ts'

const chromium = '/usr/bin/chromium'

/** What a page does to the server: each way a browser knows to send a request, and what came of it. */
const attack = (target: string, token: string): string => `<!doctype html><body><script type="module">
const results = {}
const attempt = async (name, act) => { try { results[name] = await act() } catch (error) { results[name] = 'refused: ' + error.name } }
const get = (options) => async () => { const answer = await fetch('${target}/tokens', options); return answer.type + ' ' + answer.status }
await attempt('plain fetch', get({}))
await attempt('fetch with the token', get({ headers: { authorization: 'Bearer ${token}' } }))
await attempt('opaque fetch', get({ mode: 'no-cors' }))
await attempt('simple post', async () => {
  const answer = await fetch('${target}/tickets', { method: 'POST', mode: 'no-cors', headers: { 'content-type': 'text/plain' }, body: '{}' })
  return answer.type + ' ' + answer.status
})
await attempt('json post', async () => (await fetch('${target}/tickets', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })).status)
const socket = (protocols) => () => new Promise((resolve, reject) => {
  const ws = new WebSocket('${target.replace('http', 'ws')}/socket', protocols)
  ws.onopen = () => resolve('open')
  ws.onerror = () => reject(new Error('no socket'))
})
await attempt('socket', socket([]))
await attempt('socket with a ticket', socket(['toolwright.v1', 'ticket.TICKET']))
await attempt('event source', () => new Promise((resolve, reject) => {
  const source = new EventSource('${target}/socket')
  source.onopen = () => resolve('open')
  source.onerror = () => { source.close(); reject(new Error('no stream')) }
}))
const load = (element) => () => new Promise((resolve, reject) => {
  element.onload = () => resolve('loaded')
  element.onerror = () => reject(new Error('not loaded'))
  document.body.append(element)
})
await attempt('image', load(Object.assign(new Image(), { src: '${target}/tokens' })))
await attempt('script', load(Object.assign(document.createElement('script'), { src: '${target}/tokens' })))
await attempt('beacon', async () => { navigator.sendBeacon('${target}/tickets', new Blob(['{}'], { type: 'text/plain' })); return 'sent' })
await attempt('form', async () => {
  const frame = Object.assign(document.createElement('iframe'), { name: 'target' })
  const form = Object.assign(document.createElement('form'), { method: 'post', action: '${target}/tickets', target: 'target', enctype: 'text/plain' })
  form.append(Object.assign(document.createElement('input'), { name: '{"scope":"global","x":"', value: '"}' }))
  document.body.append(frame, form)
  await new Promise((resolve) => { frame.onload = resolve; form.submit() })
  return 'sent'
})
await fetch('/report', { method: 'POST', body: JSON.stringify(results) })
</script></body>`

describe('S4 a page on another loopback port, in a real browser', () => {
  it.skipIf(!existsSync(chromium))(
    'S4 gets nothing by fetch, socket, stream, form or tag (needs /usr/bin/chromium)',
    { timeout: 90_000 },
    async () => {
      const seen: string[] = []
      const wire = await startWireApp({
        routes: (app) => {
          app.get('/socket', { websocket: true, config: { action: 'catalogue:read' } }, (socket) => socket.send('open'))
          app.addHook('onResponse', async ({ method, url, headers }, { statusCode }) => {
            seen.push(`${method} ${url} ${String(headers['origin'])} ${statusCode}`)
          })
        }
      })
      const { ticket } = (await (await wire.call('/tickets', { json: {} })).json()) as { ticket: string }
      seen.length = 0
      let report: (results: Record<string, string>) => void
      const reported = new Promise<Record<string, string>>((resolve) => (report = resolve))
      const evil = createServer((request, response) => {
        if (request.method === 'GET') {
          response.setHeader('content-type', 'text/html').end(attack(wire.url, wire.admin).replace('TICKET', ticket))
          return
        }
        let body = ''
        request.on('data', (chunk: Buffer) => (body += chunk.toString()))
        request.on('end', () => {
          response.end()
          report(JSON.parse(body) as Record<string, string>)
        })
      }).listen(0, '127.0.0.1')
      await new Promise((resolve) => evil.once('listening', resolve))
      onTestFinished(() => void evil.close())
      const browser = execa(
        chromium,
        [
          '--headless',
          '--no-sandbox',
          '--disable-gpu',
          '--disable-quic',
          '--no-first-run',
          '--disable-background-networking',
          '--disable-component-update',
          '--disable-sync',
          `--user-data-dir=${temporaryDirectory()}`,
          '--remote-debugging-port=0',
          `http://127.0.0.1:${(evil.address() as AddressInfo).port}/`
        ],
        { reject: false, stdio: 'ignore', forceKillAfterDelay: 1_000 }
      )
      const results = await Promise.race([reported, browser.then(() => Promise.reject(new Error('the browser ended')))])
      browser.kill()
      await browser

      const sent = new Set(['opaque fetch', 'simple post', 'beacon', 'form'])
      for (const [name, result] of Object.entries(results)) {
        // What is sent blindly tells the page nothing; that the server refused it is seen below.
        expect([name, result]).toEqual([
          name,
          sent.has(name) ? expect.stringMatching(/^(sent|opaque 0)$/) : expect.stringMatching(/^refused: /)
        ])
      }
      expect(Object.keys(results)).toHaveLength(12)
      // Every one of them reached the server, and none got past its edge.
      expect(seen.length).toBeGreaterThanOrEqual(11)
      // A tag sends no Origin from a page of the same site; there it is the token that is missing.
      expect(seen.filter((line) => !/ (403|undefined 401)$/.test(line))).toEqual([])
    }
  )
})
