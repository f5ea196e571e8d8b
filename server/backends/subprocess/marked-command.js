import { spawnSync } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readProc, rttimeIn } from './process-table.js'
import { treeMark } from './tree-mark.js'

/** Of util-linux, and there on all but the smallest systems. */
const prlimit = '/usr/bin/prlimit'
const bashMark = fileURLToPath(new URL('./bash-mark.sh', import.meta.url))
const isUnlimited = rttimeIn(readProc('/proc/self/limits') ?? '') === 'unlimited'
/** @type {boolean | undefined} */
let canMark

/** @typedef {{ argv: readonly [string, ...string[]], env: Record<string, string> }} CommandLine */

/**
 * The command line that gives a command its mark as a resource limit before it begins, where that can be done: the limit for the time that
 * a real-time process computes, which nobody else sets and which, as large as a mark is, limits nothing. What drops its environment
 * keeps it. A bash does it by itself, in a file that it reads first; else prlimit does and becomes the command, which costs an exec more
 * (6 ms of processor time where bash alone takes 14). Either way there is no process more.
 * @param {CommandLine & { cwd: string, mark: string }} command
 * @returns {CommandLine}
 */
export function markedCommand({ argv, env, cwd, mark }) {
  // Where somebody has set it for this process it is theirs, and could not be raised again.
  if (!isUnlimited) return { argv, env }
  const [program, option] = argv
  if (program === 'bash' && option === '-c' && !Object.hasOwn(env, 'BASH_ENV')) {
    return { argv, env: { ...env, BASH_ENV: bashMark } }
  }
  // What is not there is told by the start itself, with an error; prlimit would make an exit code of it.
  if (!(canMark ??= isMarkable()) || !isProgram(program, { cwd, env })) return { argv, env }
  return { argv: [prlimit, `--rttime=${mark}:${mark}`, '--', ...argv], env }
}

/** Whether the limit can be set and is seen. */
function isMarkable() {
  const mark = treeMark({ directory: 0, server: 0, tree: 0 })
  const trial = spawnSync(prlimit, [`--rttime=${mark}:${mark}`, '--', 'cat', '/proc/self/limits'], {
    encoding: 'latin1'
  })
  return trial.error === undefined && rttimeIn(trial.stdout) === mark
}

/** @param {string} name @param {{ cwd: string, env: Record<string, string> }} place */
function isProgram(name, { cwd, env }) {
  const directories = name.includes('/') ? [''] : (env['PATH'] ?? '').split(delimiter)
  return directories.some((directory) => {
    const path = resolve(cwd, directory, name)
    try {
      accessSync(path, constants.X_OK)
      return statSync(path).isFile()
    } catch {
      return false
    }
  })
}
