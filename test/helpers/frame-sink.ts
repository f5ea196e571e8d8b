import type { FrameSink } from '../../server/events/subscription.ts'

export interface TestSink extends FrameSink {
  /** All frames sent so far, parsed. */
  readonly frames: any[]
  /** The most that ever waited in the buffer. */
  readonly mostBuffered: number
  /** From now on nothing is taken until `resume`. */
  stall(): void
  resume(): void
  /** Takes what is in the buffer, and stalls again. */
  drain(): void
  /** Runs once before anybody is told that the sink takes more. */
  onWritable(listener: () => void): void
}

/** A sink with a buffer: what is sent while it is stalled stays in it, and beyond `highWater` characters it is backed up. */
export function testSink(highWater = 1024 * 1024): TestSink {
  const frames: unknown[] = []
  const waiting: (() => void)[] = []
  let [buffered, mostBuffered, isStalled] = [0, 0, false]
  let first: (() => void) | undefined
  const empty = (): void => {
    buffered = 0
    first?.()
    first = undefined
    for (const resolve of waiting.splice(0)) resolve()
  }
  return {
    frames,
    get mostBuffered() {
      return mostBuffered
    },
    get isBackedUp() {
      return buffered > highWater
    },
    sendText(text) {
      frames.push(JSON.parse(text))
      if (isStalled) buffered += text.length
      mostBuffered = Math.max(mostBuffered, buffered)
    },
    whenWritable() {
      return new Promise((resolve) => {
        if (buffered > highWater) waiting.push(resolve)
        else resolve()
      })
    },
    stall() {
      isStalled = true
    },
    resume() {
      isStalled = false
      empty()
    },
    drain: empty,
    onWritable(listener) {
      first = listener
    }
  }
}
