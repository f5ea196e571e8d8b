import { isIdentifier } from './sdk-names.ts'
import { escapeLoneSurrogates, type Field, type LiteralValue } from './sdk-shape.ts'

/** Whether a TypedDict can have the field: `__x` would be mangled inside a class. */
export function isWritableField({ name }: Field): boolean {
  return isIdentifier(name) && (!name.startsWith('__') || name.endsWith('__'))
}

/** A literal; an integer beyond 2^53 in all its digits, since `1e+21` is a float to Python. */
export function pythonLiteral(value: LiteralValue): string {
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value))
    return BigInt(value).toString()
  return JSON.stringify(value)
}

/** The line of a comment, or nothing for empty text. */
export function commentLine(text: string, before: string): string {
  return text === '' ? '' : `${before}# ${escapeControls(text)}\n`
}

/** A docstring on one line. A description that ends in a quote or a backslash must not take the closing quotes with it. */
export function docstring(text: string): string {
  return `"""${escapeControls(text.replaceAll('\\', '\\\\').replaceAll('"', '\\"'))}"""`
}

function escapeControls(text: string): string {
  return escapeLoneSurrogates(text).replace(
    /\p{Cc}/gu,
    (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, '0')}`
  )
}
