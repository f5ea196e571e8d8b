import { describe, expect, it } from 'vitest'
import { Lane, type LaneCall } from '../../server/code-mode/lane.ts'
import { SharedTurn } from '../../server/threads/shared-turn.ts'

/** More than a turn holds. */
function work(): void {
  const end = performance.now() + 5
  while (performance.now() < end);
}

/** Numbers the turns of the loop while `act` goes on; `step` notes one in the present turn. */
async function byTurn(act: (step: (task: number) => void) => Promise<unknown>): Promise<number[][]> {
  const turns: number[][] = [[]]
  let isDone = false
  const next = (): void => {
    if (isDone) return
    turns.push([])
    setImmediate(next)
  }
  setImmediate(next)
  await act((task) => turns.at(-1)?.push(task)).finally(() => (isDone = true))
  return turns
}

const tasks = Array.from({ length: 10 }, (_, task) => task)

describe('what many tasks may take of one turn of the loop', () => {
  it('is one for all of them; they go on in their order', async () => {
    const turn = new SharedTurn()
    const turns = await byTurn((step) =>
      Promise.all(
        tasks.map(async (task) => {
          for (let piece = 0; piece < 3; piece += 1) {
            const later = turn.next()
            if (later !== undefined) await later
            step(task)
            work()
          }
        })
      )
    )
    expect(Math.max(...turns.map(({ length }) => length))).toBeLessThanOrEqual(2)
    // The first asks for its second piece before the others ask at all.
    expect(turns.flat()).toEqual([0, ...tasks, ...tasks, ...tasks.slice(1)])
  })

  it('is all theirs while it lasts, and that of a later one again', async () => {
    const turn = new SharedTurn()
    for (let round = 0; round < 2; round += 1) {
      expect(turn.next()).toBeUndefined()
      expect(turn.next()).toBeUndefined()
      work()
      await turn.next()
    }
  })

  it('is one for the programs of all lanes', async () => {
    const turns = await byTurn(async (step) => {
      const lanes = tasks.map((task) => {
        const lane = new Lane(4)
        const call: LaneCall = {
          mode: () => 'parallel',
          start: async () => {
            step(task)
            work()
            return undefined
          },
          commit: async () => work(),
          abandon: () => undefined
        }
        lane.submit(call)
        lane.submit(call)
        return lane
      })
      await Promise.all(lanes.map((lane) => lane.whenQuiet()))
    })
    expect(Math.max(...turns.map(({ length }) => length))).toBeLessThanOrEqual(2)
    expect(turns.flat().toSorted((a, b) => a - b)).toEqual(tasks.flatMap((task) => [task, task]))
  })
})
