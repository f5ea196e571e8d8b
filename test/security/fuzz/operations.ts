import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Ajv, type ValidateFunction } from 'ajv'
import { parse } from 'yaml'
import type { Schema } from './values.ts'

export interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
  schema: Schema
}

/** One operation of the API description. */
export interface Operation {
  /** As `GET /tools/{name}`. */
  id: string
  method: string
  path: string
  parameters: Parameter[]
  /** Of the body, where it takes one. */
  body: Schema | undefined
  /** By status: what an answer must look like; undefined where it has no JSON. */
  answers: Map<number, ValidateFunction | undefined>
}

const ajv = new Ajv({ strict: false, ownProperties: true, logger: false })

/** Every operation of openapi.yaml, so that no route can be forgotten: a test of `npm run check` holds that file to the routes. */
export function readOperations(): Operation[] {
  const file = join(resolve(import.meta.dirname, '../../..'), 'openapi.yaml')
  const { paths } = parse(readFileSync(file, 'utf8')) as { paths: Record<string, Record<string, any>> }
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([name, { parameters = [], requestBody, responses }]) => ({
      id: `${name.toUpperCase()} ${path}`,
      method: name.toUpperCase(),
      path,
      parameters,
      body: requestBody?.content['application/json'].schema,
      answers: new Map(Object.entries(responses).map(([status, response]) => [Number(status), validatorOf(response)]))
    }))
  )
}

function validatorOf({ content }: any): ValidateFunction | undefined {
  const [media] = Object.values(content ?? {}) as { schema?: Schema }[]
  return media?.schema === undefined ? undefined : ajv.compile(media.schema)
}
