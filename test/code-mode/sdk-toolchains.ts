import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const tsc = resolve(import.meta.dirname, '../../node_modules/.bin/tsc')

const options = {
  compilerOptions: {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    target: 'ES2023',
    lib: ['ES2023'],
    types: [],
    module: 'esnext',
    moduleResolution: 'bundler',
    noEmit: true,
    pretty: false
  },
  include: ['*.ts']
}

/**
 * Type-checks each text as a module of its own, all in one run of the compiler. Gives the complaints of each text; a text with
 * none is not in the map.
 */
export function typecheck(texts: readonly string[]): Map<number, string[]> {
  const directory = mkdtempSync(join(tmpdir(), 'sdk-types-'))
  try {
    mkdirSync(directory, { recursive: true })
    writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify(options))
    texts.forEach((text, index) => writeFileSync(join(directory, `t${index}.ts`), `${text}\nexport {}\n`))
    const { stdout, stderr, status } = spawnSync(tsc, ['-p', directory], {
      cwd: directory,
      encoding: 'utf8',
      maxBuffer: 2 ** 26
    })
    const found = new Map<number, string[]>()
    for (const line of stdout.split('\n')) {
      const match = /^t(\d+)\.ts\((\d+),.*?: (error .*)$/.exec(line)
      if (match === null) continue
      const complaints = found.get(Number(match[1])) ?? []
      found.set(Number(match[1]), [...complaints, `line ${match[2]}: ${match[3]}`])
    }
    if (status !== 0 && found.size === 0) throw new Error(`tsc failed: ${stdout}${stderr}`)
    return found
  } finally {
    rmSync(directory, { recursive: true })
  }
}

/** What CPython says of the texts that it cannot parse. */
export function parsePython(texts: readonly string[]): string[] {
  const program = `
import ast, json, sys
bad = []
for text in json.load(sys.stdin):
    try:
        ast.parse(text)
    except BaseException as error:
        bad.append(f'{type(error).__name__}: {error}: {text[-400:]}')
json.dump(bad, sys.stdout)
`
  return JSON.parse(python(program, texts)) as string[]
}

/** A program that checks values against the types that a block declares. It says nothing of blocks that only a type checker can evaluate. */
export interface PythonCheck {
  text: string
  tool: string
  accepted: unknown[]
  refused: unknown[]
}

export interface PythonVerdict {
  evaluated: number
  complaints: string[]
}

/** Evaluates each block and checks values against the type of a tool's output. */
export function checkPython(checks: readonly PythonCheck[]): PythonVerdict {
  const program = `
import json, sys, typing
from typing import Any, Literal, NotRequired, get_args, get_origin, get_type_hints
import types

def admits(kind, value, names):
    if kind is Any: return True
    if kind is None or kind is type(None): return value is None
    origin = get_origin(kind)
    if origin is Literal: return any(type(value) is type(item) and value == item or
        isinstance(item, (int, float)) and isinstance(value, (int, float)) and not isinstance(item, bool) and not isinstance(value, bool) and float(value) == float(item)
        for item in get_args(kind))
    if origin is list: return isinstance(value, list) and all(admits(get_args(kind)[0], item, names) for item in value)
    if origin is dict: return isinstance(value, dict) and all(admits(get_args(kind)[1], item, names) for item in value.values())
    if origin in (typing.Union, types.UnionType): return any(admits(branch, value, names) for branch in get_args(kind))
    if typing.is_typeddict(kind):
        if not isinstance(value, dict): return False
        for name, field in get_type_hints(kind, names, include_extras=True).items():
            optional = get_origin(field) is NotRequired
            if name in value:
                if not admits(get_args(field)[0] if optional else field, value[name], names): return False
            elif not optional: return False
        return True
    if kind is float: return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int: return isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value)
    return type(value) is kind

complaints, evaluated = [], 0
for check in json.load(sys.stdin):
    names = {'__name__': 'block'}
    try:
        exec('from __future__ import annotations\\n' + check['text'], names)
        kind = get_type_hints(getattr(names['Tools'], check['tool']), names)['return']
        refused = [value for value in check['accepted'] if not admits(kind, value, names)]
        accepted = [value for value in check['refused'] if admits(kind, value, names)]
    except (NameError, TypeError): # an alias that names itself, \`None | None\`: only a type checker takes these
        continue
    evaluated += 1
    complaints.extend(f"refused {json.dumps(value)}:\\n{check['text']}" for value in refused)
    complaints.extend(f"accepted {json.dumps(value)}:\\n{check['text']}" for value in accepted)
json.dump({'evaluated': evaluated, 'complaints': complaints}, sys.stdout)
`
  return JSON.parse(python(program, checks)) as PythonVerdict
}

const python = (program: string, input: unknown): string =>
  execFileSync('python3', ['-c', program], { input: JSON.stringify(input), encoding: 'utf8', maxBuffer: 2 ** 28 })
