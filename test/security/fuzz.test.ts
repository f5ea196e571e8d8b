import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { bytesOf, sendBytes } from './fuzz/bytes.ts'
import { framesOf, FuzzedSocket, readFrameTypes } from './fuzz/frames.ts'
import { check, FuzzedServer } from './fuzz/fuzzed-server.ts'
import { readOperations } from './fuzz/operations.ts'
import { requestsOf } from './fuzz/requests.ts'

/** How many requests and frames are sent in all, and where the random numbers begin; a failure names the seed, operation and input. */
const total = Number(process.env['FUZZ_REQUESTS'] ?? 1_500)
const seed = Number(process.env['FUZZ_SEED'] ?? Math.trunc(Math.random() * 2 ** 31))

/** Requests of one operation, or frames of one type, in a row; all of them come again with every round. */
const perRound = 10
const lanes = 6

it(
  `whatever is sent, the answer is of the documented form: no 5xx, no crash, no growth (FUZZ_SEED=${seed})`,
  async () => {
    const home = temporaryDirectory()
    const fuzzed = await FuzzedServer.start(home)
    const operations = readOperations()
    const frameTypes = await readFrameTypes()
    const hits = new Map<string, number>()
    const hit = (id: string): void => void hits.set(id, (hits.get(id) ?? 0) + 1)
    const statuses = new Map<number, number>()

    type Target = { id: string; run: (round: number) => Promise<void> }
    const property = <T>(id: string, values: fc.Arbitrary<T>, send: (value: T) => Promise<void>): Target => ({
      id,
      run: async (round) => {
        // Shrinking asks a server that has gone on since, so it may end at another input than the least.
        await fc.assert(
          fc.asyncProperty(values, async (value) => {
            hit(id)
            await send(value)
          }),
          {
            seed: seed + round,
            numRuns: perRound,
            endOnFailure: total > 10_000
          }
        )
      }
    })
    const overHttp = operations.map((operation) =>
      property(operation.id, requestsOf(operation), async (request) => {
        const answer = await fuzzed.send(request)
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
        check(operation, answer)
      })
    )
    const overSockets = [...frameTypes].map(([type, frameType]) =>
      property(`frame ${type}`, fc.array(framesOf(frameType), { minLength: 3, maxLength: 3 }), async (frames) => {
        const socket = await FuzzedSocket.open(fuzzed)
        await socket.send(frames)
        await socket.close()
      })
    )
    const inBytes = operations
      .filter((_, index) => index % 3 === 0)
      .map((operation) =>
        property(`bytes of ${operation.id}`, bytesOf(requestsOf(operation)), (bytes) => sendBytes(fuzzed, bytes))
      )
    const targets = [...overHttp, ...overSockets, ...inBytes]

    const rounds = Math.max(2, Math.ceil(total / (targets.length * perRound)))
    let early: Awaited<ReturnType<FuzzedServer['memory']>> | undefined
    for (let round = 0; round < rounds; round += 1) {
      await fuzzed.tend()
      const waiting = targets.values()
      await Promise.all(
        Array.from({ length: lanes }, async () => {
          for (const target of waiting) {
            await target.run(round)
            if (target.id.startsWith('DELETE')) await fuzzed.tend()
          }
        })
      )
      // From where all that may be kept is kept.
      if (round === Math.floor((rounds - 1) / 2)) early = await fuzzed.memory()
    }

    const late = await fuzzed.memory()
    console.log({
      seed,
      rounds,
      hits: [...hits.values()].reduce((a, b) => a + b, 0),
      statuses: Object.fromEntries(statuses),
      early,
      late
    })
    expect([...hits.keys()].sort()).toEqual(targets.map(({ id }) => id).sort())
    expect([late.polluted, late.warnings]).toEqual([[], []])
    expect((late.bytes - (early?.bytes ?? 0)) / 2 ** 20).toBeLessThan(48)
    expect(late.resources - (early?.resources ?? 0)).toBeLessThan(50)
    expect((await fuzzed.server.request('/health/live')).status).toBe(200)
    expect(await fuzzed.server.end('SIGTERM')).toBe(0)
  },
  Math.max(300_000, total * 60)
)
