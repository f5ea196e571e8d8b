import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { createInterface } from 'node:readline'

const program = fileURLToPath(new URL('../fixtures/programs/append-forever.ts', import.meta.url))

/** What the program said was acknowledged. */
export interface Acked {
  session: string
  seq: number
  length: number
}

/** Runs a program that appends to the log of `directory` and kills it (-9) once it said `count` appends were acknowledged. */
export async function appendUntilKilled(
  directory: string,
  count: number,
  { synchronous = 'full', env = {} }: { synchronous?: 'full' | 'normal'; env?: Record<string, string> } = {}
): Promise<Acked[]> {
  const child = spawn(process.execPath, ['--import', 'tsx', program, directory, synchronous], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env }
  })
  const exited = once(child, 'exit')
  const acked: Acked[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    const [session = '', seq, length] = line.split(' ')
    acked.push({ session, seq: Number(seq), length: Number(length) })
    if (acked.length === count) child.kill('SIGKILL')
  }
  await exited
  return acked
}
