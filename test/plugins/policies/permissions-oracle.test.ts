import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CommandLine, allows, concerns, readWords } from '../../../plugins/policies/permissions-command.ts'
import { plainWords } from '../../../plugins/policies/permissions-plain-command.ts'
import { BashOracle } from '../../helpers/bash-oracle.ts'

const fail = (path: string, why: string): never => {
  throw new Error(`${path}: ${why}`)
}

/** Anything that bash gives a meaning to, and what only looks as if it did. */
const hostile = [
  ...Array.from(
    ' \t\n\r\v\f;&|<>()[]{}*?!#~^=+,:%@"\'`$\\-./_0aZ\u0000\u0007\u001b\u007f\u0085\u00a0\u2003\u2028\u202e\u3000\ufeffé\ud800'
  ),
  ...[
    '--',
    '-x',
    '&&',
    '||',
    '|&',
    '&>',
    '>>',
    '<<',
    '<<<',
    '<(',
    '>(',
    '$(',
    '${',
    '$((',
    '$[',
    "$'",
    '$"',
    '\\\n',
    '!!'
  ],
  ...['~root', '{a,b}', '{1..3}', 'A=1', 'a[0]=1', 'a=~', ' #', '2>', '/bin/', './', 'HEAD~3', '%1', '@(a)', '^a^b']
]
const names = [
  'probe',
  'if',
  'then',
  'for',
  'time',
  '!',
  '{',
  'function',
  'coproc',
  'env',
  'sh',
  'eval',
  '.',
  'command',
  'exec'
]

describe('an allow against bash itself', () => {
  it('runs exactly the words that were read, whatever is put around them', { timeout: 120_000 }, () => {
    const oracle = new BashOracle(['probe'])
    const word = fc
      .array(fc.constantFrom(...hostile, 'a', 'b-c', 'probe'), { maxLength: 3 })
      .map((parts) => parts.join(''))
    const quoted = fc.oneof(
      { weight: 4, arbitrary: word },
      { weight: 2, arbitrary: word.map((text) => `'${text}'`) },
      { weight: 2, arbitrary: word.map((text) => `"${text}"`) }
    )
    const text = fc
      .tuple(fc.constantFrom('probe', 'probe', 'probe', 'probe', ...names), fc.array(quoted, { maxLength: 3 }), word)
      .map(([name, words, end]) => [name, ...words].join(' ') + end)
    let allowed = 0
    fc.assert(
      fc.property(text, fc.constantFrom('C.UTF-8', 'C'), (command, locale) => {
        const words = plainWords(command)
        if (words === undefined || allowed >= 300) return
        allowed += 1
        // Another name is that of a program which is not there.
        const expected = words[0] === 'probe' ? { argvs: [words], stderr: '' } : { argvs: [] }
        expect(oracle.run(command, locale)).toMatchObject(expected)
      }),
      { numRuns: 4_000 }
    )
    expect(allowed).toBeGreaterThan(50)
  })

  it(
    'every character, alone, at either end of a word, in its middle, in quotes and before the command',
    { timeout: 120_000 },
    () => {
      const oracle = new BashOracle(['probe'])
      const characters = [...Array(256).keys()].map((code) => String.fromCharCode(code))
      const texts = [...characters, '\u2003', '\u3000', '\u2028', '\ufeff', '😀'].flatMap((char) => [
        `probe ${char}`,
        `probe a${char} ${char}b a${char}b`,
        `probe '${char}' "${char}" x'${char}'"${char}"y`,
        `${char}probe a`,
        `probe${char} a`
      ])
      // One bash runs them all, a line each: none may change what its neighbours are.
      const allowed = texts.filter((text) => plainWords(text) !== undefined)
      const others = allowed.filter((text) => plainWords(text)?.[0] !== 'probe')
      expect(oracle.run(others.join('\n')).argvs).toEqual([])
      const ours = allowed.filter((text) => plainWords(text)?.[0] === 'probe')
      expect(ours.length).toBeGreaterThan(100)
      expect(oracle.run(ours.join('\n'))).toEqual({ argvs: ours.map(plainWords), stderr: '' })
    }
  )
})

describe('a deny against bash itself', () => {
  const pieces = [
    ...[
      'victim',
      'victim',
      'probe',
      'vic',
      'tim',
      "v'ictim'",
      'v\\ictim',
      '"victim"',
      '$X',
      '"$X"',
      '$@',
      '${X:-victim}'
    ],
    ...[
      ' ',
      ' ',
      ' ',
      '\n',
      ';',
      '&&',
      '||',
      '|',
      '|&',
      '&',
      '&>f ',
      '>f ',
      '2>&1 ',
      '<f ',
      '>|f ',
      '<<<',
      '<(',
      '>(',
      '\\\n'
    ],
    ...[
      '(',
      ')',
      '{ ',
      '; }',
      '$(',
      '`',
      '"',
      "'",
      '\\',
      '#',
      '$((',
      '$[',
      '((',
      '[[ ',
      ' ]]',
      "$'",
      '$"',
      '<<E\n',
      '\nE\n',
      '<<-"E"\n'
    ],
    ...[
      'if ',
      'if (probe) ',
      'then victim;fi',
      'then ',
      'fi',
      'else ',
      'for x in ',
      '; do ',
      'done',
      'case x in x) ',
      ' esac',
      ';;',
      '! ',
      'time ',
      'coproc ',
      'while '
    ],
    ...[
      'sh -c ',
      "bash -c '",
      'eval ',
      'env ',
      'xargs ',
      'nohup ',
      'exec ',
      'command ',
      'builtin ',
      'timeout 1 ',
      'nice -n 1 ',
      'find . '
    ],
    ...[
      '-exec ',
      '{} ',
      '\\; ',
      'A=1 ',
      'X=victim ',
      'X=victim;',
      'a[0]=',
      'a=(',
      'f() ',
      'function f ',
      'f;',
      'trap ',
      ' EXIT',
      '. f',
      'set '
    ],
    ...[
      'alias probe=victim',
      'shopt -s expand_aliases\n',
      'export X=victim;',
      'PS4=',
      'set -x;',
      '{victim,a}',
      '*',
      '~',
      'echo ',
      'printf -v '
    ]
  ]

  it('sees every command that bash runs', { timeout: 120_000 }, () => {
    const oracle = new BashOracle(['probe', 'victim'])
    const rule = readWords(['victim'], false, fail)
    const text = fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 12 }).map((parts) => parts.join(''))
    let run = 0
    fc.assert(
      fc.property(text, (command) => {
        if (run >= 300 || !/v.*i.*c/s.test(command) || concerns(rule, new CommandLine(command))) return
        run += 1
        expect(oracle.run(command).argvs.filter(([name]) => name === 'victim')).toEqual([])
      }),
      { numRuns: 8_000 }
    )
    expect(run).toBeGreaterThan(50)
  })

  it('and an allow for anything is for none of them unless it is the whole text', () => {
    const rule = readWords(['probe', { rest: ['*', '-*'] }], true, fail)
    const text = fc.array(fc.constantFrom(...pieces), { minLength: 2, maxLength: 8 }).map((parts) => parts.join(''))
    fc.assert(
      fc.property(text, (command) => {
        if (allows(rule, new CommandLine(command))) expect(command).toMatch(/^ *probe( |$)/)
      }),
      { numRuns: 2_000 }
    )
  })
})
