import { describe, expect, it, vi } from 'vitest'
import type { InFlight } from '../../server/pipeline/execution.ts'
import { type CallObserver, CallObservers } from '../../server/pipeline/observers.ts'

const call = {} as InFlight

function observed(...observers: CallObserver[]) {
  const warn = vi.fn()
  const all = new CallObservers(warn)
  for (const observer of observers) all.add(observer)
  return { all, warn }
}

describe('observers of calls', () => {
  it('hear of each stage and of its end, also when it throws', async () => {
    const heard: string[] = []
    const stage = (_call: InFlight, name: string) => {
      heard.push(name)
      return () => void heard.push(`${name} over`)
    }
    const { all } = observed({ stage })
    expect(all.duringSync(call, 'guard', () => 1)).toBe(1)
    const dispatch = all.begin(call, 'dispatch')
    await Promise.resolve()
    expect(heard.at(-1)).toBe('dispatch')
    all.end(dispatch)
    const fail = () => {
      throw new Error('exploded')
    }
    expect(() => all.duringSync(call, 'finalize', fail)).toThrow('exploded')
    const stages = ['guard', 'dispatch', 'finalize']
    expect(heard).toEqual(stages.flatMap((name) => [name, `${name} over`]))
  })

  it('change nothing by what they throw: the others hear all the same, and a warning says so', () => {
    const fail = () => {
      throw new Error('exploded')
    }
    const heard: string[] = []
    const { all, warn } = observed(
      { stage: fail, opened: fail, closed: fail },
      { stage: () => fail },
      {
        stage: () => () => void heard.push('over'),
        opened: () => void heard.push('opened'),
        closed: () => void heard.push('closed')
      }
    )
    all.opened(call, undefined)
    expect(all.duringSync(call, 'guard', () => 1)).toBe(1)
    all.closed(call, { isError: false, value: null, content: [] })
    expect(heard).toEqual(['opened', 'over', 'closed'])
    expect(warn).toHaveBeenCalledTimes(4)
  })

  it('run the body within each other, those that do so', () => {
    const order: string[] = []
    const within = (name: string): CallObserver => ({
      within: (_call, run) => {
        order.push(name)
        return run()
      }
    })
    const { all } = observed(within('inner'), {}, within('outer'))
    expect(all.within(call, () => order.push('body'))).toBe(3)
    expect(order).toEqual(['outer', 'inner', 'body'])
  })

  it('cost nothing where there are none', () => {
    const { all } = observed()
    expect(all.duringSync(call, 'guard', () => 1)).toBe(1)
    expect(all.begin(call, 'dispatch')).toBeUndefined()
    expect(all.within(call, () => 3)).toBe(3)
  })
})
