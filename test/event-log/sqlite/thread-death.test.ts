import { Worker } from 'node:worker_threads'
import { describe, expect, it, vi } from 'vitest'
import { addNotes, addSession, openTestLog } from '../../helpers/sqlite-logs.ts'
import { until } from '../../helpers/until.ts'

describe('a thread that dies', () => {
  it.each([0, 1])(
    'reliability.md C5: thread %i: nothing is acknowledged, the operator is told, and close returns',
    async (nth) => {
      const started = vi.spyOn(Worker.prototype, 'postMessage')
      const fatal: Error[] = []
      const log = await openTestLog({ onFatal: (error) => fatal.push(error) })
      await addSession(log, 's')
      await log.rows('sessions', {})
      const workers = [...new Set(started.mock.contexts)]
      started.mockRestore()
      const waiting = addNotes(log, 's', 1)
      const settled = waiting.then(
        () => 'acknowledged',
        (error: Error) => error.name
      )
      await (workers[nth] as Worker).terminate()
      expect(['acknowledged', 'StoreUnavailableError']).toContain(await settled)
      await until(() => fatal.length > 0)
      expect(log.state).toBe('unavailable')
      const unavailable = { name: 'StoreUnavailableError' }
      await expect(addNotes(log, 's', 1)).rejects.toMatchObject(unavailable)
      await expect(log.prune('s', 1)).rejects.toMatchObject(unavailable)
      if (nth === 1) await expect(log.rows('sessions', {})).rejects.toMatchObject(unavailable)
      await log.close()
      expect(log.state).toBe('closed')
      expect(fatal).toHaveLength(1)
    }
  )
})
