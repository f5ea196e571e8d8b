import { isJsonObject, type JsonValue } from '../../json/lossless.ts'
import { toolUrl } from '../http-executor.ts'
import type { Operation } from './operations.ts'
import { LeftOut, member, quoted } from './references.ts'

/**
 * Where an operation is: what the importer says, else the first of the document's servers for it, with the defaults of its variables.
 * Without a slash at the end. Throws `INVALID_DEFINITION` for the former, `LeftOut` for the latter.
 */
export function baseUrlOf({ servers }: Operation, given: string | undefined): string {
  if (given !== undefined) return trimmed(toolUrl(given, 'baseUrl'))
  const [server] = Array.isArray(servers) ? servers : []
  const url = isJsonObject(server) ? member(server, 'url') : undefined
  if (!isJsonObject(server) || typeof url !== 'string')
    throw new LeftOut('has no server in the document; give a "baseUrl"')
  const filled = url.replaceAll(/\{([^{}]*)\}/g, (_all, name: string) => defaultOf(member(server, 'variables'), name))
  if (!URL.canParse(filled)) throw new LeftOut(`is at ${quoted(filled)}, which is no whole URL; give a "baseUrl"`)
  try {
    return trimmed(toolUrl(filled, 'servers'))
  } catch (error) {
    throw new LeftOut(`is at no usable URL: ${(error as Error).message}`)
  }
}

function defaultOf(variables: JsonValue | undefined, name: string): string {
  const variable = isJsonObject(variables) ? member(variables, name) : undefined
  const value = isJsonObject(variable) ? member(variable, 'default') : undefined
  if (typeof value !== 'string')
    throw new LeftOut(`is at a server with the variable ${quoted(name)}, which has no default`)
  return value
}

/** A query of the base would stand before each operation's own path. */
const trimmed = (url: URL): string => `${url.origin}${url.pathname.replace(/\/+$/, '')}`
