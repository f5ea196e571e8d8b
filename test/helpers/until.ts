import { setTimeout as wait } from 'node:timers/promises'

/** Waits for a condition that nothing announces. Fails when it does not come true in time. */
export async function until(condition: () => boolean | Promise<boolean>, withinMs = 10_000): Promise<void> {
  const deadline = performance.now() + withinMs
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not true within ${withinMs} ms: ${String(condition)}`)
    await wait(10)
  }
}
