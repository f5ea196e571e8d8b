import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { HomeApp } from '../helpers/home-app.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'

/** These run what they are given; the others must take every text for a text (reliability.md §1.5). */
const runs = new Set(['bash', 'terminal_open', 'terminal_send', 'run_code'])
/** They wait for a person. */
const asks = new Set(['ask_user_question'])

interface Tool {
  name: string
  parameters: { properties?: Record<string, any>; required?: string[] }
}

/** Arguments that fit the schema, with `text` wherever a text may stand. */
function filled(schema: any, text: string): any {
  switch (schema.enum === undefined ? schema.type : 'enum') {
    case 'enum':
      return schema.enum[0]
    case 'integer':
    case 'number':
      return Math.max(1, schema.minimum ?? 1)
    case 'boolean':
      return false
    case 'array':
      return [filled(schema.items ?? { type: 'string' }, text)]
    case 'object':
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([key, value]) => [key, filled(value, text)])
      )
    default:
      return text
  }
}

const hostile = (canary: string): string[] => [
  '--help',
  '-x',
  `--output=${canary}`,
  `-o${canary}`,
  `$(touch ${canary})`,
  `\`touch ${canary}\``,
  `; touch ${canary}`,
  `| tee ${canary}`,
  `> ${canary}`,
  `\ntouch ${canary}\n`,
  `--pre=touch ${canary}`,
  `--hostname-bin=touch ${canary}`,
  '-',
  '--',
  '@/etc/passwd'
]

it('S12 arguments that look like options, substitutions and redirections are texts, to each built-in tool', async () => {
  const place = temporaryDirectory()
  const [canary, work] = [join(place, 'canary'), join(place, 'work')]
  mkdirSync(work)
  const server = await HomeApp.start()
  await server.ask('PUT', '/sessions/s', { cwd: work })
  const call = async (name: string, args: unknown): Promise<string> => {
    const { status, body } = await server.ask('POST', '/invoke', { session: 's', name, arguments: args })
    expect([name, status]).toEqual([name, 200])
    return body.isError ? `error ${body.error.message}` : JSON.stringify(body.value)
  }

  const { body } = await server.ask('GET', '/tools?limit=500')
  const tools = (body.tools as Tool[]).filter(({ name }) => !runs.has(name) && !asks.has(name))
  expect(tools.length).toBeGreaterThan(12)
  for (const { name, parameters } of tools) {
    for (const text of hostile(canary)) {
      const answer = await call(name, filled({ type: 'object', ...parameters }, text))
      expect([name, text, /usage:|ripgrep \d|options:/i.test(answer)]).toEqual([name, text, false])
    }
  }

  // Files that have an option for a name are read, written and found.
  for (const name of ['--help', '-rf', '--pre=touch x']) {
    await call('write', { file_path: join(work, name), content: 'inside\n' })
    expect(await call('read', { file_path: join(work, name) })).toContain('inside')
    expect(await call('glob', { pattern: '-*' })).toContain(name)
    expect(await call('grep', { pattern: 'inside', path: name })).toContain('inside')
  }

  // And so are texts in files.
  const texts = fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme-ascii' }).map((text) => `-${text}`)
  await fc.assert(
    fc.asyncProperty(texts, async (text) => {
      writeFileSync(join(work, 'dashes.txt'), `before\n${text}\nafter\n`)
      const pattern = text.replaceAll(
        /[^A-Za-z0-9 -]/g,
        (sign) => `\\x${sign.charCodeAt(0).toString(16).padStart(2, '0')}`
      )
      expect(await call('grep', { pattern, path: 'dashes.txt' })).toContain('dashes.txt')
    }),
    { numRuns: 25 }
  )
  expect(existsSync(canary)).toBe(false)
})
