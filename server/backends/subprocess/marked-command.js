import { spawnSync } from 'node:child_process'
import { accessSync, constants, readFileSync, statSync } from 'node:fs'
import { delimiter, resolve } from 'node:path'
import { rttimeIn } from './process-table.js'
import { treeMark } from './tree-mark.js'

/** Of util-linux, and there on all but the smallest systems. */
const prlimit = '/usr/bin/prlimit'
const canMark = isMarkable()

/**
 * The command line that gives a command its mark as a resource limit before it begins, where that can be done: the limit for the time that
 * a real-time process computes, which nobody else sets and which, as large as a mark is, limits nothing. What drops its environment
 * keeps it. prlimit becomes the command, so there is no process more.
 * @param {readonly [string, ...string[]]} argv
 * @param {string} mark
 * @param {{ cwd: string, env: Record<string, string> }} place
 * @returns {readonly [string, ...string[]]}
 */
export function markedCommand(argv, mark, place) {
  // What is not there is told by the start itself, with an error; prlimit would make an exit code of it.
  if (!canMark || !isProgram(argv[0], place)) return argv
  return [prlimit, `--rttime=${mark}:${mark}`, '--', ...argv]
}

/** Whether the limit can be set and is seen; not where somebody has set it for this process: it could not be raised again. */
function isMarkable() {
  try {
    if (rttimeIn(readFileSync('/proc/self/limits', 'latin1')) !== 'unlimited') return false
  } catch {
    return false
  }
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
