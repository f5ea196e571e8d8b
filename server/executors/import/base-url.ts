import { toolUrl } from '../http-executor.ts'
import { LeftOut, quoted } from './references.js'

/** Where the importer says that the API is. Without a slash at the end. Throws `INVALID_DEFINITION`. */
export const givenBaseUrl = (given: string): string => trimmed(toolUrl(given, 'baseUrl'))

/** Where the document says that it is. Without a slash at the end. Throws `LeftOut`. */
export function documentedBaseUrl(url: string): string {
  if (!URL.canParse(url)) throw new LeftOut(`is at ${quoted(url)}, which is no whole URL; give a "baseUrl"`)
  try {
    return trimmed(toolUrl(url, 'servers'))
  } catch (error) {
    throw new LeftOut(`is at no usable URL: ${(error as Error).message}`)
  }
}

/** A query of the base would stand before each operation's own path. */
const trimmed = (url: URL): string => `${url.origin}${url.pathname.replace(/\/+$/, '')}`
