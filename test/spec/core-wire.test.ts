import { describe, expect, it } from 'vitest'
import { bareTool } from '../helpers/bare-tool.ts'
import { startApp, type TestApp } from '../helpers/app.ts'

/** The arguments that the body of `keep` got. */
async function keeping(): Promise<{ app: TestApp; seen: unknown[] }> {
  const app = await startApp()
  const seen: unknown[] = []
  app.app.tools.register(bareTool('keep', { execute: (args) => (seen.push(args), 'kept') }))
  return { app, seen }
}

const send = async ({ served }: TestApp, body: string, path = '/invoke'): Promise<{ status: number; body: any }> => {
  const response = await fetch(`http://127.0.0.1:${served.port}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${served.admin}`, 'content-type': 'application/json' },
    body
  })
  return { status: response.status, body: await response.json() }
}
const nested = (levels: number, leaf = '1'): string => `${'['.repeat(levels)}${leaf}${']'.repeat(levels)}`

describe('JSON over the wire (core.md §2)', () => {
  it('a body that nests deeper than 256 is refused; what is just within runs [core-2.7.bodies]', async () => {
    const { app, seen } = await keeping()
    const within = await send(app, `{"name":"keep","arguments":{"deep":${nested(254)}}}`)
    expect([within.status, within.body.value]).toEqual([200, 'kept'])
    const beyond = await send(app, `{"name":"keep","arguments":{"deep":${nested(255)}}}`)
    expect([beyond.status, beyond.body.error.code]).toEqual([400, 'BAD_JSON'])
    expect(seen).toHaveLength(1)
  })

  it('a result that nests 20,000 levels is answered, logged and replayed [core-2.7.outputs]', async () => {
    // On a busy machine such a result alone is pressure enough for the next request to be shed.
    const app = await startApp({ 'shedding.maxLoopDelayMs': '0' })
    let deep: unknown = 'leaf'
    for (let level = 0; level < 20_000; level += 1) deep = [deep]
    app.app.tools.register(
      bareTool('deep', {
        output: { schema: {}, render: (_args, value) => [{ type: 'tree', value }] },
        execute: () => deep
      })
    )
    const text = async (path: string, json?: unknown): Promise<string> => {
      const response = await app.served.call(path, json === undefined ? {} : { json })
      expect(response.status).toBe(200)
      return response.text()
    }
    const first = await text('/invoke', { name: 'deep', callId: 'd' })
    const again = await text('/invoke', { name: 'deep', callId: 'd' })
    const events = await text('/sessions/default/events?after=-1&limit=500')
    const whole = nested(20_000, '"leaf"')
    for (const answer of [first, again]) expect(answer).toContain(`"value":${whole}`)
    expect(events).toContain(whole)
  })

  it.each(['-0', '1e400', '-1e400'])(
    'the number %s is no lossless argument: the call fails without a code, and nothing ran [core-2.8.not-lossless]',
    async (number) => {
      const { app, seen } = await keeping()
      const direct = await send(app, `{"name":"keep","arguments":{"n":${number}}}`)
      const raw = await app.invoke({ name: 'keep', rawArguments: `{"n":${number}}` })
      for (const { isError, error } of [direct.body, raw]) {
        expect(isError).toBe(true)
        expect(error.message).toContain('lossless JSON')
        expect('info' in error).toBe(false)
      }
      expect(seen).toEqual([])
      const calls = (await app.events()).filter(({ type }) => type === 'tool/call')
      expect(calls.map(({ data }) => data.arguments)).toEqual(Array(2).fill(`{"n":${number}}`))
    }
  )

  it.each([
    ['1e400', 'null'],
    [`${'9'.repeat(309)}.5`, 'null'],
    ['-0', '0']
  ])('a callId whose arguments were %s is not that of the call with %s (api.md §2)', async (lossy, other) => {
    const { app } = await keeping()
    const forms = [
      (number: string) => `{"name":"keep","callId":"a","arguments":{"n":${number}}}`,
      (number: string) => JSON.stringify({ name: 'keep', callId: 'r', rawArguments: `{"n":${number}}` })
    ]
    for (const form of forms) {
      const first = await send(app, form(lossy))
      expect((await send(app, form(lossy))).body).toEqual({ ...first.body, replayed: true })
      const conflict = await send(app, form(other))
      expect([conflict.status, conflict.body.error.code]).toEqual([409, 'CALL_CONFLICT'])
    }
  })

  it('arguments keep keys that elsewhere would pollute [core-2.8.proto-keys]', async () => {
    const { app, seen } = await keeping()
    const text = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"x":1}},"list":[{"__proto__":null}]}'
    expect((await send(app, `{"name":"keep","arguments":${text}}`)).body.value).toBe('kept')
    expect(JSON.stringify(seen[0])).toBe(text)
    expect(Object.getPrototypeOf(seen[0])).toBe(Object.prototype)
    expect('polluted' in {}).toBe(false)
  })

  it('an integer that a double does not hold fails its call, with its path [core-2.8.unsafe-arguments]', async () => {
    const { app, seen } = await keeping()
    const text = '{"ids":[1,{"id":9007199254740993}]}'
    const direct = await send(app, `{"name":"keep","arguments":${text}}`)
    const raw = await app.invoke({ name: 'keep', rawArguments: text })
    for (const { error } of [direct.body, raw]) {
      expect(error.info).toEqual({ name: 'ToolArgsError', code: 'INVALID_ARGS' })
      expect(error.message).toContain('ids[1].id')
    }
    expect(seen).toEqual([])
  })

  it('tool/call keeps the keys of arguments in the order in which they came (api.md §2)', async () => {
    const { app } = await keeping()
    const args = '{ "b": 1, "10": [ ], "2": { "a": "\\u0041", "1": null } }'
    const call = `{"name":"keep","callId":"c","arguments":${args}}`
    await send(app, call)
    await send(app, `{"calls":[${call.replace('"c"', '"d"')}]}`, '/invoke/batch')
    const calls = (await app.events()).filter(({ type }) => type === 'tool/call')
    expect(calls.map(({ data }) => data.arguments)).toEqual(Array(2).fill('{"b":1,"10":[],"2":{"a":"A","1":null}}'))
    const replayed = await send(app, '{"name":"keep","callId":"c","arguments":{"2":{"1":null,"a":"A"},"10":[],"b":1}}')
    expect(replayed.body.replayed).toBe(true)
  })
})
