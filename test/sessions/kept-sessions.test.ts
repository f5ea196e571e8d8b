import { describe, expect, it } from 'vitest'
import { CallFixture } from '../helpers/call-fixture.ts'
import { deferred } from '../helpers/pipeline-fixture.ts'

/** More sessions than are kept when they are idle. */
const many = 10_001

describe('a session that something belongs to', () => {
  it('is the same object as long as it is kept, however many others are used', async () => {
    const fixture = new CallFixture()
    await fixture.invoke('c1')
    const session = await fixture.open()
    const [letGo, letGoToo] = [session.keep(), session.keep()]
    const useOthers = async (prefix: string): Promise<void> => {
      for (let i = 0; i < many; i++) await fixture.open(`${prefix}${i}`)
    }
    await useOthers('a')
    letGo()
    expect(await fixture.open()).toBe(session)
    letGoToo()
    await useOthers('b')
    expect(await fixture.open()).not.toBe(session)
  })

  it('is deleted when what belongs to it has ended', async () => {
    const fixture = new CallFixture()
    await fixture.invoke('c1')
    const session = await fixture.open()
    const gate = deferred()
    const seen: unknown[] = []
    fixture.sessions.onEnd(async (ending) => {
      seen.push(ending, ending.isStale)
      await gate.promise
    })
    const undo = fixture.sessions.onEnd(async () => void seen.push('undone'))
    undo()
    const gone = fixture.sessions.delete(session, async () => undefined)
    await new Promise((resolve) => setImmediate(resolve))
    expect(seen).toEqual([session, true])
    expect(await fixture.log.rows('sessions', { id: 's1' })).toHaveLength(1)
    gate.resolve()
    await gone
    expect(await fixture.log.rows('sessions', { id: 's1' })).toEqual([])
    expect(await fixture.open()).not.toBe(session)
  })
})
