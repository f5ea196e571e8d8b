import { itemTexts, memberText } from '../json/member-text.ts'
import { unsafeNumberPaths } from '../json/parse-body.ts'
import type { PathStep } from '../json/path.ts'

/** The `arguments` of one call as the request said them: what the parsed value no longer tells (core.md §2.8, api.md §2). */
export interface SentArguments {
  /** Their JSON text as it was written, `{}` where there is none. */
  text(): string
  /** Path, from them on, of the first integer that a double does not hold. */
  unsafe: readonly PathStep[] | undefined
}

/** The arguments at `path` of a JSON text, which parses. */
export function sentArguments(body: string, path: readonly PathStep[]): SentArguments {
  return { text: () => memberText(body, path) ?? '{}', unsafe: unsafeBelow(path, unsafeNumberPaths(body, path.length)) }
}

/** Those of each call of a batch (`{"calls":[{"arguments":…}]}`), by its index. */
export function sentBatchArguments(body: string): (index: number) => SentArguments {
  const unsafe = unsafeNumberPaths(body, 2)
  let calls: string[] | undefined
  const callText = (index: number): string => (calls ??= itemTexts(memberText(body, ['calls'])!))[index]!
  return (index) => ({
    text: () => memberText(callText(index), ['arguments']) ?? '{}',
    unsafe: unsafeBelow(['calls', index, 'arguments'], unsafe)
  })
}

const unsafeBelow = (path: readonly PathStep[], paths: readonly (readonly PathStep[])[]): PathStep[] | undefined =>
  paths.find((unsafe) => path.every((step, index) => unsafe[index] === step))?.slice(path.length)
