import type { Binding } from './code-runtime.ts'

/** What a world is told of a binding: everything but the functions themselves. */
export interface BindingShape {
  readonly global: string
  readonly names: readonly string[]
  readonly errorClass: { readonly name: string; readonly memberNameProperty: string } | undefined
}

const identifier = /^[A-Za-z_][A-Za-z0-9_]*$/
const dunder = /^__.*__$/

/** Words that name nothing in strict JavaScript or in Python, and names that a world has already (code-mode.md §5). */
const taken = new Set(
  (
    'arguments await break case catch class const continue debugger default delete do else enum eval export extends false finally ' +
    'for function if implements import in instanceof interface let new null package private protected public return static super ' +
    'switch this throw true try typeof var void while with yield undefined NaN Infinity ' +
    'False None True and as assert async def del elif except from global is lambda nonlocal not or pass raise ' +
    'console __builtins__ __name__ __debug__ __program__'
  ).split(' ')
)

const takenMembers = new Set(['name', 'message', 'stack', 'args', 'with_traceback', 'add_note'])

/**
 * Checks the names that bindings put into a program's world (code-mode.md §5) and returns their shapes. The functions' own names
 * may be anything. Throws a `TypeError` that names the culprit.
 */
export function shapesOf(bindings: readonly Binding[]): BindingShape[] {
  const injected = new Set<string>()
  const inject = (name: unknown, what: string): void => {
    if (typeof name !== 'string' || !identifier.test(name))
      throw new TypeError(`The ${what} ${show(name)} is not an identifier.`)
    if (taken.has(name)) throw new TypeError(`The ${what} ${show(name)} is a reserved name.`)
    if (injected.has(name)) throw new TypeError(`The ${what} ${show(name)} is used twice.`)
    injected.add(name)
  }
  return bindings.map(({ global, functions, errorClass }) => {
    inject(global, 'namespace')
    if (errorClass !== undefined) {
      inject(errorClass.name, 'error class')
      checkMember(errorClass.memberNameProperty)
    }
    return { global, names: Object.keys(functions), errorClass: errorClass && { ...errorClass } }
  })
}

function checkMember(name: unknown): void {
  if (typeof name === 'string' && name !== '' && !takenMembers.has(name) && !dunder.test(name)) return
  throw new TypeError(`The error class cannot hold the member's name in ${show(name)}.`)
}

const show = (name: unknown): string => (typeof name === 'string' ? JSON.stringify(name) : typeof name)
