import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'

/** A process in the kernel may not even heed SIGKILL; it does nothing more of its own either. */
const END_MS = 5_000

/** Kills a process of the server's own and waits for its end. */
export async function endChild(child: ChildProcess): Promise<void> {
  const { pid, exitCode, signalCode } = child
  if (pid === undefined || exitCode !== null || signalCode !== null) return
  const exited = once(child, 'exit', { signal: AbortSignal.timeout(END_MS) })
  child.ref()
  child.kill('SIGKILL')
  await exited.catch(() => undefined)
  child.unref()
}
