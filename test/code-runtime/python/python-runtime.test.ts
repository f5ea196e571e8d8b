import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CodeRuntime, FailureKind, RunResult } from '../../../server/code-runtime/code-runtime.ts'
import { openPythonRuntime } from '../../../server/code-runtime/python/python-runtime.ts'
import { RuntimeUnavailableError } from '../../../server/code-runtime/runtime-errors.ts'
import { descendants, fixtureFunctions, runProgram, toolsBinding } from '../../helpers/code-runtime.ts'
import { nest } from '../../helpers/json-arbitraries.ts'
import { until } from '../../helpers/until.ts'

const failed = (kind: FailureKind, message: unknown = expect.any(String)) =>
  expect.objectContaining({ error: { kind, message } }) as RunResult
const containing = (text: string) => expect.stringContaining(text) as string

describe('the Python runtime', { timeout: 60_000 }, () => {
  let runtime: CodeRuntime
  let hasty: CodeRuntime
  const run = (program: string, more?: Parameters<typeof runProgram>[2]) => runProgram(runtime, program, more)

  beforeAll(async () => {
    runtime = await openPythonRuntime({ spareWorlds: 3, maxOldGenerationSizeMb: 256 })
    hasty = await openPythonRuntime({ spareWorlds: 2, computeMs: 300, maxWallMs: 1_500, maxOutputBytes: 2_000 })
  }, 60_000)
  afterAll(() => Promise.all([runtime.dispose(), hasty.dispose()]), 30_000)

  it('says what it is', () => {
    expect([runtime.language, runtime.isolation]).toEqual(['python', 'process'])
  })

  it('C021 C022 runs the body of an async function', async () => {
    await expect(run('x: int = 1\nprint("point", x)\nreturn x + 1')).resolves.toEqual({ logs: ['point 1'], value: 2 })
    for (const [expression, value] of [
      ['None', undefined],
      ['True', true],
      ['"s"', 's'],
      ['[]', []],
      ['{"a": [None, 1.5, 2.0]}', { a: [null, 1.5, 2] }],
      ['1e30', 1e30],
      ['"\\ud800é"', '\ud800é']
    ]) {
      await expect(run(`return ${expression as string}`)).resolves.toEqual(
        value === undefined ? { logs: [] } : { logs: [], value }
      )
    }
    await expect(run('')).resolves.toEqual({ logs: [] })
  })

  it('C023 refuses what is not lossless JSON, with the path', async () => {
    for (const [expression, text] of [
      ['float("nan")', '$'],
      ['[-0.0]', '$[0]'],
      ['{"rows": [(1, 2)]}', '$.rows[0]: tuple'],
      ['{1: 2}', 'key'],
      ['2**60', '2^53'],
      ['[b"x"]', 'bytes'],
      ['{1}', 'set']
    ]) {
      await expect(run(`return ${expression}`)).resolves.toEqual(failed('invalid-output', containing(text!)))
    }
    await expect(run('a = []\na.append(a)\nreturn a')).resolves.toEqual(
      failed('invalid-output', containing('circular'))
    )
  })

  it('C028 passes 3,000 levels in all three positions', async () => {
    const program = "v = 'leaf'\nfor _ in range(3000):\n  v = [v]\nreturn await tools.mirror(v)"
    expect(JSON.stringify((await run(program)).value)).toBe(JSON.stringify(nest(3_000, 'leaf')))
  })

  it('calls by attribute and by name, together and in turn', async () => {
    const program =
      'import asyncio\nreturn [await tools.add({"a": 1, "b": 2}), await asyncio.gather(tools["my-tool"]({}), tools["class"]({}), tools["__proto__"]({})), "nope" in tools, list(tools)[:1]]'
    await expect(run(program)).resolves.toEqual({
      logs: [],
      value: [3, ['my-tool-ok', 'class-ok', '__proto__-ok'], false, ['echo']]
    })
    await expect(run('tools.add = 1')).resolves.toEqual(failed('exception', containing('TypeError')))
  })

  it('many entries, many calls in turn and at once, and much text are no flood', { timeout: 60_000 }, async () => {
    const program = `import asyncio, sys
for n in range(10_000):
  print(n)
  sys.stdout.write('')
for n in range(300):
  await tools.mirror(n)
at_once = await asyncio.gather(*[tools.mirror(1) for _ in range(10_500)], return_exceptions=True)
return [len(at_once), len(await tools.mirror('x' * 1_000_000)), 'x' * 5_000_000]`
    const { value, logs, error } = await run(program)
    expect([error, logs.length]).toEqual([undefined, 20_000])
    expect(value).toEqual([10_500, 1_000_000, 'x'.repeat(5_000_000)])
  })

  it('C025 C031 fails calls with the class of the namespace', async () => {
    const program =
      'out = []\nfor call in (lambda: tools.fail(args={"why": "no"}), lambda: tools.mirror({1, 2}), lambda: tools.mirror(), lambda: tools.lossy({})):\n  try:\n    await call()\n  except ToolCallError as error:\n    out.append([error.toolName, str(error), error.message == str(error)])\nreturn out'
    await expect(run(program)).resolves.toMatchObject({
      value: [
        ['fail', 'no', true],
        ['mirror', containing('not lossless JSON: $: set is not JSON'), true],
        ['mirror', containing('not lossless JSON: $: there is none'), true],
        ['lossy', containing('$.at'), true]
      ]
    })
  })

  it('C033 tells the lines of the program and nothing of the server', async () => {
    await expect(run('def helper():\n  raise ValueError("bad")\n\nhelper()')).resolves.toEqual(
      failed('exception', 'ValueError: bad\n    at helper (program:2:3)\n    at program:4:1')
    )
    await expect(run('def (')).resolves.toEqual(
      failed('exception', expect.stringMatching(/^SyntaxError: .* \(program:1:\d+\)$/))
    )
    await expect(
      run('try:\n  1 / 0\nexcept ZeroDivisionError as error:\n  raise KeyError("k") from error')
    ).resolves.toEqual(failed('exception', containing('caused by: ZeroDivisionError')))
    await expect(run('yield 1')).resolves.toEqual(failed('exception'))
    await expect(run('return 1\n\ndef x():\n return 2\n)(')).resolves.toEqual(
      failed('exception', containing('SyntaxError'))
    )
  })

  it('C030 makes one entry of a print, and of a write', async () => {
    const program =
      'import sys, os\nprint("a", 1)\nsys.stdout.write("b\\n")\nprint("c", file=sys.stderr)\nprint()\nprint("d", end="")\nos.write(1, b"raw")'
    await expect(run(program)).resolves.toEqual({ logs: ['a 1', 'b\n', 'c', '', 'd', 'raw'] })
  })

  it('C038 C061 C065 C066 strays, exits, the environment, and fresh worlds', async () => {
    await expect(run('import asyncio\ntools.fail({})\nawait asyncio.sleep(5)')).resolves.toEqual(
      failed('exception', containing('deliberate'))
    )
    await expect(run('import sys\nprint("a")\nsys.exit(7)')).resolves.toEqual({
      logs: ['a'],
      error: { kind: 'worker-exit', message: containing('7') }
    })
    await expect(run('import os\nos._exit(3)')).resolves.toEqual(failed('worker-exit', containing('3')))
    await expect(
      run('import os, builtins\nbuiltins.leak = 1\nos.environ["L"] = "1"\nreturn len(os.environ)')
    ).resolves.toMatchObject({ value: 1 })
    await expect(
      run('import os, builtins\nreturn [hasattr(builtins, "leak"), len(os.environ)]')
    ).resolves.toMatchObject({ value: [false, 0] })
  })

  it('C051 C053 C054 C062 budgets', async () => {
    await expect(runProgram(hasty, 'print("in")\nwhile True: pass')).resolves.toEqual({
      logs: ['in'],
      error: { kind: 'timeout', message: containing('compute') }
    })
    await expect(runProgram(hasty, 'import time\ntime.sleep(100)')).resolves.toEqual(
      failed('timeout', containing('wall'))
    )
    await expect(runProgram(hasty, 'while True: print("x" * 500)')).resolves.toEqual(failed('output-limit'))
    await expect(runProgram(hasty, 'return "x" * 5000')).resolves.toEqual(failed('output-limit'))
    await expect(run('x = "a" * (1 << 30)')).resolves.toEqual(failed('worker-exit', containing('memory')))
  })

  it('C037 tells of what was raised, whatever it is', async () => {
    await expect(run('raise KeyError("k")')).resolves.toEqual(failed('exception', containing("KeyError: 'k'")))
    await expect(run('raise BaseException')).resolves.toEqual(failed('exception', containing('BaseException')))
    await expect(run('raise 1')).resolves.toEqual(failed('exception', containing('TypeError')))
    await expect(run('class E(Exception):\n  def __str__(self): raise ValueError\nraise E()')).resolves.toEqual(
      failed('exception', containing('cannot be shown'))
    )
    const nameless =
      'class M(type):\n  __name__ = property(lambda self: 1 / 0)\nclass E(Exception, metaclass=M): pass\nraise E()'
    await expect(run(nameless)).resolves.toEqual(failed('exception', '(an error that cannot be shown)'))
  })

  it('C034 C061 what cannot be parsed is an exception; every exit has a number', async () => {
    await expect(run(`return ${'-'.repeat(100_000)}1`)).resolves.toEqual(failed('exception'))
    for (const [code, number] of [
      ['True', 1],
      ['2 ** 70 + 3', 3],
      ['-1', 255],
      ['"text"', 1],
      ['None', 0]
    ] as const) {
      const { logs, error } = await run(`import sys\nsys.exit(${code})`)
      expect([error?.kind, error?.message]).toEqual(['worker-exit', containing(`exit code ${number}`)])
      expect(logs).toEqual(code === '"text"' ? ['text'] : [])
    }
  })

  it('C056 floods end at the limit', async () => {
    for (const write of [
      'print',
      'sys.stdout.write',
      'sys.stderr.write',
      '(lambda text: os.write(1, text.encode()))'
    ]) {
      const { logs, error } = await runProgram(hasty, `import os, sys\nwrite = ${write}\nwhile True: write("x" * 100)`)
      expect(error?.kind, write).toBe('output-limit')
      expect(logs.join('').length, write).toBeGreaterThan(1_000)
    }
  })

  it('C058 abort, and calls in flight', async () => {
    const stop = new AbortController()
    const functions = fixtureFunctions({ mirror: async () => (stop.abort('user-cancel'), new Promise(() => {})) })
    await expect(
      run('await tools.mirror(1)', { signal: stop.signal, bindings: [toolsBinding(functions)] })
    ).resolves.toEqual(failed('abort', 'user-cancel'))
  })

  it('has no memory that no process is charged for, and no namespace to mount some in', async () => {
    const program = `import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def error_of(make):
  try:
    return 0 if make() >= 0 else ctypes.get_errno()
  except OSError as error:
    return error.errno
found = [error_of(each) for each in (lambda: os.memfd_create("m"), lambda: libc.shmget(0, 4096, 0o1600), lambda: libc.msgget(0, 0o1600))]
if (child := os.fork()) == 0:
  os._exit(error_of(lambda: libc.unshare(0x10000000)))
return found + [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]`
    const { value } = await run(program)
    const isKnown = ['x64', 'arm64'].includes(process.arch)
    if (runtime.containment.pidNamespace && isKnown) expect(value).toEqual([38, 38, 38, 38])
  })

  it('forged frames choose an outcome and nothing else', async () => {
    const send =
      'import os, struct, time\ndef send(text):\n  data = text.encode()\n  os.write(3, struct.pack(">I", len(data)) + data)\n'
    await expect(run(`${send}send('["done"]\\n"forged"')\ntime.sleep(5)`)).resolves.toEqual({
      logs: [],
      value: 'forged'
    })
    await expect(run(`${send}for _ in range(1100): send("{garbage")\ntime.sleep(5)`)).resolves.toEqual(
      failed('worker-exit')
    )
    await expect(run(`${send}os.write(3, b"\\xff" * 8)\ntime.sleep(5)`)).resolves.toEqual(failed('worker-exit'))
    await expect(run('return 1')).resolves.toEqual({ logs: [], value: 1 })
  })

  it('without an interpreter says so at once', async () => {
    await expect(openPythonRuntime({ pythonPath: '/nowhere/python3' })).rejects.toThrow(RuntimeUnavailableError)
    await expect(openPythonRuntime({ pythonPath: '/nowhere/python3' })).rejects.toThrow('/nowhere/python3')
    await expect(openPythonRuntime({ computeMs: 0 })).rejects.toThrow(RangeError)
  })
})

// By itself: a spare of the other runtimes that starts meanwhile would count as left behind.
describe('a Python runtime that is disposed', { timeout: 60_000 }, () => {
  it('C067 disposal ends what runs, and leaves no process', async () => {
    const before = descendants()
    const own = await openPythonRuntime({ spareWorlds: 1 })
    let calls = 0
    const functions = fixtureFunctions({ mirror: async () => ((calls += 1), new Promise(() => {})) })
    const bindings = [toolsBinding(functions)]
    const runs = ['tools.mirror(1)\nwhile True: pass', 'await tools.mirror(1)'].map((program) =>
      runProgram(own, program, { bindings })
    )
    await until(() => calls === 2, 30_000)
    await own.dispose()
    for (const outcome of await Promise.all(runs)) expect(outcome).toEqual(failed('abort'))
    await expect(runProgram(own, 'return 1')).rejects.toThrow('disposed')
    await until(() => descendants().every((pid) => before.includes(pid)))
  })
})
