import { afterAll, describe, expect, it } from 'vitest'
import { TypeStripper } from '../../server/code-runtime/strip-types.ts'

const parentheses = (levels: number) => `return ${'('.repeat(levels)}1${')'.repeat(levels)}`

describe('the type stripper (§7)', { timeout: 60_000 }, () => {
  const stripper = new TypeStripper()
  afterAll(() => stripper.dispose())

  it('keeps every place, whatever the characters', async () => {
    const program = 'const é: string = "😀" as string\ninterface Ω { a: 1 }\nreturn é satisfies string'
    const stripped = await stripper.strip(program)
    expect(stripped).toEqual({ code: expect.stringMatching(/^const é {9}= "😀" {10}\n/) })
    expect('code' in stripped && stripped.code.length).toBe(program.length)
    expect('code' in stripped && stripped.code.indexOf('return')).toBe(program.indexOf('return'))
  })

  it('refuses in one line that counts as the program does', async () => {
    await expect(stripper.strip('\n\nenum E { A }')).resolves.toEqual({
      refusal: expect.stringMatching(/^SyntaxError: .*enum.* \(program:3:1\)$/)
    })
  })

  it.each(['f(', 'const f = () => {', 'if (x', 'type A =', 'a\n/* b\n'])(
    '§7.2 says of %j that it is the end, and shows nothing of what it is wrapped in',
    async (program) => {
      await expect(stripper.strip(program)).resolves.toEqual({
        refusal: expect.stringMatching(
          /^SyntaxError: (?!.*(?:program:|got|Unexpected token)).*\(at the end of the program\)$/
        )
      })
    }
  )

  it('§7.3 survives programs that ruin its instance, and serves those behind them', async () => {
    const answers = await Promise.all([
      stripper.strip(parentheses(20_000)),
      stripper.strip('return 1'),
      ...Array.from({ length: 40 }, () => stripper.strip(parentheses(800))),
      stripper.strip('const x: number = 2'),
      stripper.strip(`return ${'`${'.repeat(5_000)}1${'}`'.repeat(5_000)}`),
      stripper.strip('return 3')
    ])
    expect(answers[0]).toEqual({ refusal: expect.stringContaining('too deeply nested') })
    expect(answers[1]).toEqual({ code: 'return 1' })
    expect(answers[42]).toEqual({ code: 'const x         = 2' })
    expect(answers.at(-1)).toEqual({ code: 'return 3' })
  })

  it('gives back the memory that a large program took, and serves the next', async () => {
    let threads = 0
    const note = () => (threads += 1)
    process.on('worker', note)
    try {
      await expect(stripper.strip(`const f = (${'a: b,'.repeat(140_000)}) => {}`)).resolves.toHaveProperty('code')
      await expect(stripper.strip('const x: 1 = 1')).resolves.toEqual({ code: 'const x    = 1' })
      expect(threads).toBeGreaterThan(0)
    } finally {
      process.off('worker', note)
    }
  })

  it('answers what is waiting when it is disposed, and then takes nothing', async () => {
    const own = new TypeStripper()
    const waiting = own.strip('return 1')
    await own.dispose()
    await expect(waiting).resolves.toEqual({ refusal: expect.any(String) })
    await expect(own.strip('return 1')).rejects.toThrow('disposed')
  })
})
