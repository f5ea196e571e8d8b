import { RequestError } from '../errors.ts'
import type { Scope } from '../scopes/scope.ts'
import { slotKey } from '../scopes/slots.ts'
import type { ToolDefinition, ToolSchema } from './definition.ts'
import { transportName, unlistedTools } from './reserved-names.js'

/** How a scope's tools are shown to its model (core.md §7.8): as they are, only through programs, or both. */
export const modes = ['native', 'code', 'both'] as const
export type Mode = (typeof modes)[number]

const declaredMode = slotKey<Mode>('mode')

/** Declares the mode of a scope; throws a plain `Error` when misused (core.md §7.7). */
export function declareMode(scope: Scope, mode: Mode): () => boolean {
  if (scope.parent === undefined) throw new Error('presentAs needs a scope: the global mode is configured')
  if (!modes.includes(mode)) throw new Error(`presentAs knows the modes ${modes.join(', ')}`)
  const slot = scope.slot(declaredMode)
  const [declared] = slot.values()
  if (declared !== undefined) throw new Error(`scope "${scope.id}" is presented as "${declared}" already`)
  return slot.add(mode)
}

/** The nearest declaration along the chain, if there is one (core.md §7.7). */
export function nearestMode(scope: Scope): Mode | undefined {
  for (let layer: Scope | undefined = scope; layer !== undefined; layer = layer.parent) {
    const [declared] = layer.slot(declaredMode).values()
    if (declared !== undefined) return declared
  }
  return undefined
}

/** A named part of the prompt; sections are given in ascending order (code-mode.md §3). */
export interface PromptSection {
  name: string
  order: number
  text: string
}

/** What a model is to be given under the effective mode (api.md §3): what it may call, and what it must be told. */
export interface Prompt {
  mode: Mode
  tools: ToolSchema[]
  sections: PromptSection[]
}

/**
 * Contributes sections to a prompt; code mode gives its SDK this way. `tools` are the visible definitions without the transport,
 * in view order. Throws when the mode cannot be served, which fails the assembly (core.md §7.8).
 */
export type SectionProvider = (view: { mode: Mode; scope: Scope; tools: ToolDefinition[] }) => PromptSection[]

/** What assembly needs to know of the registry. */
export interface Catalogue {
  readonly globalScope: Scope
  effectiveMode(scope?: Scope): Mode
  view(scope?: Scope): ToolDefinition[]
  schemas(scope?: Scope): ToolSchema[]
  /** Every name before masks, the scope's own included (core.md §7.12). */
  knownNames(scope?: Scope): Set<string>
}

/**
 * Makes the assembly of prompts (core.md §7.12). Tools come in code-unit order of their names, `run_code` last; a `toolOrder`
 * names tools in their order and holds `<unlisted-tools>` once, where the rest goes. Throws `Error` for a bad order, and
 * `CODE_RUNTIME_MISSING` for a mode other than native without code mode.
 */
export function createPromptAssembly({ catalogue, sections }: { catalogue: Catalogue; sections?: SectionProvider }) {
  return ({ scope = catalogue.globalScope, toolOrder }: { scope?: Scope; toolOrder?: readonly string[] }): Prompt => {
    const mode = catalogue.effectiveMode(scope)
    const all = catalogue.schemas(scope)
    const transport = all.find((tool) => tool.name === transportName)
    if (mode !== 'native' && transport === undefined) {
      throw new RequestError(
        'CODE_RUNTIME_MISSING',
        `Scope "${scope.id}" is presented as "${mode}", which needs a code runtime, and none is mounted.`
      )
    }
    const tools = mode === 'code' ? all.filter((tool) => tool === transport) : all
    const known = mode === 'code' ? new Set<string>() : catalogue.knownNames(scope)
    if (transport !== undefined) known.add(transportName)
    const visible = catalogue.view(scope).filter((tool) => tool.name !== transportName)
    return {
      mode,
      tools: toolOrder === undefined ? tools.toSorted(byName) : arrange(tools, toolOrder, known),
      sections: (sections?.({ mode, scope, tools: visible }) ?? []).toSorted(
        (a, b) => a.order - b.order || compare(a.name, b.name)
      )
    }
  }
}

function arrange(tools: ToolSchema[], order: readonly string[], known: ReadonlySet<string>): ToolSchema[] {
  if (new Set(order).size !== order.length) throw new Error('the tool order names a tool twice')
  if (!order.includes(unlistedTools)) throw new Error(`the tool order must contain "${unlistedTools}"`)
  const unknown = order.filter((name) => name !== unlistedTools && !known.has(name))
  if (unknown.length > 0) throw new Error(`the tool order names unknown tools: ${unknown.join(', ')}`)
  const byToolName = new Map(tools.map((tool) => [tool.name, tool]))
  const unlisted = tools.filter((tool) => !order.includes(tool.name)).toSorted(byName)
  return order.flatMap((name) => (name === unlistedTools ? unlisted : (byToolName.get(name) ?? [])))
}

/** Plain `<` on strings, whatever the locale; the transport comes after every tool (code-mode.md §3). */
const byName = (a: ToolSchema, b: ToolSchema): number => rank(a) - rank(b) || compare(a.name, b.name)

const rank = (tool: ToolSchema): number => Number(tool.name === transportName)

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
