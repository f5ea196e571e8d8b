import { access, constants, stat } from 'node:fs/promises'
import { delimiter, isAbsolute, join } from 'node:path'
import { SpawnError } from './subprocess.ts'

async function isExecutableFile(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}

/** `Subprocesses.resolveExecutable` over a finished environment (backends.md §2). */
export async function resolveExecutable(command: string, env: Readonly<Record<string, string>>, signal?: AbortSignal) {
  if (isAbsolute(command)) {
    if (await isExecutableFile(command)) return command
    throw new SpawnError(`${JSON.stringify(command)} is not an executable file`)
  }
  if (command === '' || command.includes('/') || command.includes('\0')) {
    throw new SpawnError(`${JSON.stringify(command)} is neither an absolute path nor a bare name`)
  }
  // A relative or empty entry would make the answer depend on a directory, and be somebody else's program.
  for (const directory of (env['PATH'] ?? '').split(delimiter).filter(isAbsolute)) {
    signal?.throwIfAborted()
    const candidate = join(directory, command)
    if (await isExecutableFile(candidate)) return candidate
  }
  throw new SpawnError(`there is no program ${JSON.stringify(command)} on the PATH`)
}
