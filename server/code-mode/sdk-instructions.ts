import { transportName } from '../tools/reserved-names.js'

/** What differs between the languages in the text before the declarations. */
interface Words {
  program: string
  call: string
  failure: string
  overlap: string
  further: string[]
}

const typescript: Words = {
  program:
    'TypeScript, the body of an async function: `await` and `return` work at its top level, `import` only as `await import(…)`. Types are advisory ' +
    'and are erased before it runs, so only erasable syntax is allowed: no `enum`, no `namespace`, no parameter properties.',
  call: '`await tools.name(args)`, or `await tools["odd-name"](args)` where the name is not an identifier',
  failure: 'rejects with a `ToolCallError`, whose `toolName` and `message` say what failed; `try`/`catch` works',
  overlap:
    '`Promise.all`. Results arrive in the order in which the calls were made, so `Promise.race` does not give the fastest one first',
  further: []
}

const python: Words = {
  program: 'Python, the body of an async function: `await` and `return` work at its top level.',
  call: '`await tools.name(args)`, or `await tools["odd-name"](args)` where the name is listed in a comment',
  failure: 'raises `ToolCallError`, whose `toolName` and message say what failed; `try`/`except` works',
  overlap:
    '`asyncio.gather`. Results arrive in the order in which the calls were made, so waiting for the first to complete does not give the fastest one',
  further: [
    'Of the names below only `tools` and `ToolCallError` exist when the program runs. The TypedDict classes are static stubs: pass plain dicts and lists.'
  ]
}

/** The section of a language around its declarations (code-mode.md §4.2). */
const section = (words: Words, fence: string, declarations: string): string =>
  `# Tools for programs

Run programs that call tools with \`${transportName}\`. It takes two required arguments, both strings: \`code\`, the program, and \`description\`, a short label that says what the program does.

${[
  `The program is ${words.program}`,
  `Call a tool as ${words.call}. The call gives the tool's JSON value, typed as declared below.`,
  'Arguments must be lossless JSON: no undefined, NaN or infinite numbers, dates, functions, class instances or cycles.',
  `A call that fails ${words.failure}.`,
  `Independent calls that only read may overlap under ${words.overlap}. Calls that change something run alone, in the order in which they were made; use \`await\` for work that depends on them.`,
  'Calls that still run when the program returns are cancelled: await every call whose effect or value you need.',
  'Only what the program prints or returns comes back to you. Images that tools return are attached after the run.',
  ...words.further
]
  .map((line) => `- ${line}`)
  .join('\n')}

\`\`\`${fence}
${declarations}
\`\`\``

/** The whole TypeScript section around its declarations. */
export const typescriptSection = (declarations: string): string => section(typescript, 'ts', declarations)

/** The whole Python section around its declarations. */
export const pythonSection = (declarations: string): string => section(python, 'python', declarations)
