import { escapeLoneSurrogates, type Field, type LiteralValue } from './sdk-shape.ts'

// The hard keywords of Python 3; soft ones (match, case, type, _) are ordinary names.
const keywords = new Set(
  (
    'False None True and as assert async await break class continue def del elif else except finally for from global if import in is ' +
    'lambda nonlocal not or pass raise return try while with yield __debug__'
  ).split(' ')
)

/**
 * Whether CPython takes the name as an identifier and keeps it as it is: it folds identifiers to NFKC, while the keys of JSON are
 * compared as they are (code-mode.md §4.4).
 */
export function isIdentifier(name: string): boolean {
  return /^[\p{XID_Start}_]\p{XID_Continue}*$/u.test(name) && !keywords.has(name) && name.normalize('NFKC') === name
}

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
