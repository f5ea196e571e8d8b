import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryDirectory } from './temporary-directory.ts'

/**
 * What bash really runs of a text, as it is run by the tool: the `programs` do nothing but write down their argv; besides them only
 * a few that run others can be found. Everything happens in a directory of its own.
 */
export class BashOracle {
  readonly #cwd = temporaryDirectory()
  readonly #bin = join(temporaryDirectory(), 'bin')
  readonly #record = join(this.#bin, '..', 'record')

  constructor(programs: readonly string[]) {
    mkdirSync(this.#bin)
    for (const name of programs) {
      const path = join(this.#bin, name)
      writeFileSync(path, `#!/bin/bash\nprintf '%s\\0' "$#" "\${0##*/}" "$@" >>'${this.#record}'\n`)
      chmodSync(path, 0o755)
    }
    const directories = ['/usr/bin', '/bin']
    for (const name of ['sh', 'bash', 'env', 'xargs', 'nohup', 'find', 'cat', 'timeout', 'nice']) {
      const found = directories.map((directory) => join(directory, name)).find((path) => existsSync(path))
      if (found !== undefined) symlinkSync(found, join(this.#bin, name))
    }
  }

  /** The argv of each program that ran, and what bash complained of. */
  run(text: string, locale = 'C.UTF-8'): { argvs: string[][]; stderr: string } {
    rmSync(this.#record, { force: true })
    const { stderr } = spawnSync('/bin/bash', ['-c', text], {
      cwd: this.#cwd,
      env: { PATH: this.#bin, LC_ALL: locale, HOME: '/home/nobody' },
      stdio: ['ignore', 'ignore', 'pipe'],
      encoding: 'utf8',
      timeout: 60_000,
      killSignal: 'SIGKILL'
    })
    const fields = existsSync(this.#record) ? readFileSync(this.#record, 'utf8').split('\0').slice(0, -1) : []
    const argvs: string[][] = []
    for (let at = 0; at < fields.length;) {
      const end = at + 2 + Number(fields[at])
      argvs.push(fields.slice(at + 1, end))
      at = end
    }
    return { argvs, stderr }
  }
}
