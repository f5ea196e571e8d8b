import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { removeTraces } from './harness.ts'
import { ServerProcess } from './server-process.ts'

const hasStrace = (() => {
  try {
    execFileSync('strace', ['-e', 'trace=fsync', 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

/** Answers one after the other, and of how many the journal was written after its last fsync before the answer left. */
async function unsyncedAnswers(count: number, synchronous: 'full' | 'normal') {
  const home = join(temporaryDirectory(), 'home')
  onTestFinished(() => removeTraces(home))
  const trace = `${home}.trace`
  const calls = 'trace=pwrite64,fsync,fdatasync,write,writev,sendto,sendmsg'
  // The tracer is the grandchild (-D), so that the server is ours.
  const wrapper = ['strace', '-D', '-f', '-y', '-s', '16', '-o', trace, '-e', calls]
  const server = await ServerProcess.start({ home, wrapper, settings: { store: { synchronous, ballastBytes: 0 } } })
  for (let n = 0; n < count; n += 1) {
    const { status } = await server.request('POST', '/invoke', { name: 'note', arguments: { text: 'x' } })
    expect(status).toBe(200)
  }
  await server.stop()
  let isDirty = false
  const seen = { answers: 0, unsynced: 0 }
  const syncing = new Set<string>()
  for (const line of readFileSync(trace, 'utf8').split('\n')) {
    const thread = line.split(' ')[0] ?? ''
    if (/pwrite64\(\d+<[^>]*\.db-wal>/.test(line)) isDirty = true
    else if (/f(data)?sync\(\d+<[^>]*\.db-wal>/.test(line)) {
      if (line.includes('<unfinished')) syncing.add(thread)
      else if (line.endsWith('= 0')) isDirty = false
    } else if (/f(data)?sync resumed>/.test(line) && syncing.delete(thread)) isDirty = false
    else if (/"HTTP\/1\.1 200/.test(line)) {
      seen.answers += 1
      if (isDirty) seen.unsynced += 1
    }
  }
  return seen
}

describe.skipIf(!hasStrace)('C4: the order of system calls', () => {
  it('no answer leaves before the journal that holds it is synced', async () => {
    expect(await unsyncedAnswers(1000, 'full')).toEqual({ answers: 1000, unsynced: 0 })
  }, 120_000)

  it('C13: with synchronous=normal the same look finds answers without a sync', async () => {
    expect((await unsyncedAnswers(20, 'normal')).unsynced).toBeGreaterThan(10)
  }, 60_000)
})
