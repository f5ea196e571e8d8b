import { type TSchema, Type, TypeGuard } from '@sinclair/typebox'
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

/**
 * Own members only, or `{"required":["constructor"]}` would accept `{}`; nothing is filled in or dropped; one error is enough,
 * all of them could be as many as the body has items (reliability.md §1.6).
 */
const options: Options = {
  ownProperties: true,
  allErrors: false,
  useDefaults: false,
  removeAdditional: false,
  strictTypes: false,
  // Our own schemas, which the lint of the API description checks: to check them at each start takes as long as to compile them.
  validateSchema: false,
  meta: false
}

/** Fastify looks for the errors on the function itself. */
export interface Validator {
  (data: unknown): boolean
  errors?: ErrorObject[] | null
}

/**
 * Validates JSON as it is: bodies and frames. A schema is compiled with the first value that it has to judge: most of a server's are not
 * needed in a day, and all of them were half of the time that a start took.
 */
export function exactValidators(): (schema: TSchema) => Validator {
  const ajv = new Ajv(options)
  return (schema) => compiledLater(ajv, schema)
}

function compiledLater(ajv: Ajv, schema: TSchema): Validator {
  let validate: ValidateFunction | undefined
  const check: Validator = (data) => {
    validate ??= ajv.compile(schema)
    const isValid = validate(data)
    check.errors = validate.errors ?? null
    return isValid
  }
  return check
}

const noQuery = Type.Object({}, { additionalProperties: false })

/** Validates what routes declare. A body is taken as it is; what comes in a URL or a header is text, and read as its type. */
export const validation = fp(
  async (fastify: FastifyInstance) => {
    const exact = exactValidators()
    const coercing = new Ajv({ ...options, coerceTypes: true })
    fastify.setValidatorCompiler<TSchema>(({ schema, httpPart }) => {
      const validate = httpPart === 'body' ? exact(schema) : finite(compiledLater(coercing, schema))
      return TypeGuard.IsOptional(schema) ? orAbsent(validate) : validate
    })
    // Who asks a route that has no dry run for one must not have the call run instead.
    fastify.addHook('onRoute', (route) => {
      if (route.config?.isPublic !== true) route.schema = { querystring: noQuery, ...route.schema }
    })
  },
  { name: 'validation', fastify: '5.x' }
)

/** Where `1e999` is read as a number it is Infinity, which ajv then takes for an integer that no bound applies to. */
function finite(validate: Validator): Validator {
  const check: Validator = (data: unknown): boolean => {
    const isValid = validate(data)
    check.errors = validate.errors ?? null
    if (!isValid) return false
    for (const [name, value] of Object.entries(data ?? {})) {
      if (value !== Infinity && value !== -Infinity) continue
      check.errors = [
        { keyword: 'type', instancePath: `/${name}`, schemaPath: '#', params: {}, message: 'must be finite' }
      ]
      return false
    }
    return true
  }
  return check
}

/** Fastify shows an absent body as null. */
function orAbsent(validate: Validator): Validator {
  const check: Validator = (data: unknown): boolean => {
    const isValid = data === null || validate(data)
    check.errors = isValid ? null : (validate.errors ?? null)
    return isValid
  }
  return check
}
