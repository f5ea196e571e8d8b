import { describe, expect, it } from 'vitest'
import { definePlugin } from '../../../plugins/define-plugin.ts'
import { text } from '../../../server/authoring/content.ts'
import type { JsonValue } from '../../../server/json/lossless.ts'
import { ToolArgsError } from '../../../server/tools/args-error.ts'
import { startApp } from '../../helpers/app.ts'

const parameters = {
  type: 'object' as const,
  properties: { n: { type: 'integer', minimum: 1, format: 'uint32' }, again: { $ref: '#/properties/n' } },
  patternProperties: { '^x-': { type: 'string' } },
  additionalProperties: false
}

/** A tool whose schemas are none of ours, as one that comes over the wire will be. */
const foreign = definePlugin({ name: 'foreign', needs: ['wireSchemas'] }, async (tools, { wireSchemas }) => {
  const input = await wireSchemas.compile(parameters, 'parameters')
  const output = await wireSchemas.compile({ type: 'array', maxItems: 2 }, 'output.schema')
  const validateArguments = (args: JsonValue) => input.validate(args, '')
  tools.register({
    name: 'foreign',
    description: 'Repeats its number.',
    parameters: input.schema,
    output: { schema: output.schema, render: (_args, value) => text(JSON.stringify(value)) },
    validateArguments,
    validateOutput: (value) => output.validate(value, 'value'),
    execute: async (args) => {
      const violations = await validateArguments(args)
      if (violations.length > 0) throw new ToolArgsError(violations)
      return Array((args as { n: number }).n).fill('x')
    }
  })
})

describe('schemas from outside as a service of the server (api.md §3)', () => {
  it('F39, F41: a plugin holds a tool to schemas beyond the subset', async () => {
    const app = await startApp()
    const mounted = await app.app.tools.mount(foreign)
    const invoke = (args: unknown) => app.invoke({ name: 'foreign', arguments: args })
    expect(await invoke({ n: 2, 'x-a': 'b' })).toMatchObject({ isError: false, value: ['x', 'x'] })
    expect(await invoke({ n: 0 })).toMatchObject({
      isError: true,
      error: { info: { code: 'INVALID_ARGS' }, message: 'invalid arguments: "n" must be >= 1' }
    })
    expect(await invoke({ n: 1, again: 'a' })).toMatchObject({ error: { info: { code: 'INVALID_ARGS' } } })
    expect(await invoke(JSON.parse('{"n":1,"__proto__":1}'))).toMatchObject({
      error: { message: 'invalid arguments: "__proto__" is not declared' }
    })
    expect(await invoke({ n: 3 })).toMatchObject({ isError: true, error: { info: { code: 'INVALID_TOOL_OUTPUT' } } })
    await mounted.dispose()
  })

  it('a schema beyond the limits fails the load, naming the place', async () => {
    const app = await startApp()
    const bad = definePlugin({ name: 'bad', needs: ['wireSchemas'] }, async (_tools, { wireSchemas }) => {
      await wireSchemas.compile({ properties: { a: { $ref: 'https://example.com/a' } } }, 'parameters')
    })
    await expect(app.app.tools.mount(bad)).rejects.toThrow('"parameters.properties.a.$ref" leads out of the schema')
  })

  it('ends with the server', async () => {
    const app = await startApp()
    const { wireSchemas } = app.app
    const { validate } = await wireSchemas.compile({ type: 'string' })
    await app.app.close()
    await expect(validate('a', '')).rejects.toThrow('closed')
  })
})
