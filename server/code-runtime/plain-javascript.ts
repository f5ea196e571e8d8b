import { Script } from 'node:vm'

/** Longer programs would keep the server's loop for more than a moment. */
const maxUnits = 8_192
/** A comment in a script, but in no module, and TypeScript takes a program for one. */
const markupComment = /<!--|-->/

/**
 * Whether a program is JavaScript as it stands and means the same to TypeScript, so that there is nothing to erase. It does not where
 * `f<T>(x)` may be a call with a type. Nothing of the program runs.
 */
export function isPlainJavaScript(program: string): boolean {
  if (program.length > maxUnits || markupComment.test(program) || mayHoldTypeArguments(program)) return false
  try {
    void new Script(`'use strict'\nasync function program() {\n${program}\n}`)
    return true
  } catch {
    return false
  }
}

function mayHoldTypeArguments(program: string): boolean {
  const start = program.indexOf('<')
  return start !== -1 && program.slice(start).replaceAll('=>', '').includes('>')
}
