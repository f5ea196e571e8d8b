import { RequestError } from '../errors.ts'
import { ownValue } from '../json/plain.ts'
import { sdkLanguages } from './sdk-section.ts'

/** What the schema of `run_code` says in words; it depends on the language of the programs (code-mode.md §2.1). */
export interface RunCodeTexts {
  readonly description: string
  readonly code: string
}

const textsFor = (language: string, how: string): RunCodeTexts => ({
  description:
    `Runs a program in ${language} that calls tools. Takes two required arguments, both strings: \`code\`, the program, and ` +
    '`description`, a short label that says what the program does. Only what the program prints or returns comes back; ' +
    'images that the tools it calls return are attached afterwards.',
  code: `The program: the body of an async function in ${how}. Tools are called as \`await tools.name(args)\`.`
})

const texts = {
  typescript: textsFor('TypeScript', 'TypeScript, erasable syntax only'),
  python: textsFor('Python', 'Python')
}

/** The texts for a runtime's language, TypeScript's without one. Throws `CODE_RUNTIME_MISSING` naming the known languages. */
export function runCodeTexts(language = 'typescript'): RunCodeTexts {
  const found = ownValue(texts, language) as RunCodeTexts | undefined
  if (found !== undefined) return found
  throw new RequestError(
    'CODE_RUNTIME_MISSING',
    `The code runtime speaks "${language}", and run_code knows ${sdkLanguages.join(', ')} only.`
  )
}
