import { EventClient, type Frame, type ServedApp } from './served-app.ts'

type Place = Pick<ServedApp, 'port' | 'admin'>

export interface CallFrame extends Frame {
  dispatchId: string
  callId: string
  name: string
  arguments: any
  redelivered?: true
}

/** A tool as a provider lists it: no arguments, any output. */
export const listed = (name: string, more: Record<string, unknown> = {}): Record<string, unknown> => ({
  name,
  description: `Does ${name}.`,
  parameters: { type: 'object' },
  concurrency: 'parallel',
  ...more
})

/** A provider that answers when the test says so. */
export class TestProvider {
  readonly client: EventClient
  readonly id: string

  constructor(client: EventClient, id: string) {
    this.client = client
    this.id = id
  }

  static async open(place: Place, { token = place.admin, id = 'p' }: { token?: string; id?: string } = {}) {
    return new TestProvider(await EventClient.open(place as ServedApp, token), id)
  }

  /** Sends its list; gives the `provided` frame, or the error that refused all of it. Errors of single tools come before. */
  async provide(tools: readonly (string | Record<string, unknown>)[], scope?: string): Promise<Frame> {
    const id = `provide ${this.client.frames.length} ${performance.now()}`
    this.client.send({
      ...{ type: 'provide', id, providerId: this.id, ...(scope === undefined ? {} : { scope }) },
      tools: tools.map((tool) => (typeof tool === 'string' ? listed(tool) : tool))
    })
    return this.client.next((frame) => frame['id'] === id && (frame.type === 'provided' || frame['name'] === undefined))
  }

  of(type: string): Frame[] {
    return this.client.frames.filter((frame) => frame.type === type)
  }

  /** The first `call` frame of a `callId`, or of any. */
  async call(callId?: string): Promise<CallFrame> {
    const isMeant = (frame: Frame): boolean =>
      frame.type === 'call' && (callId === undefined || frame['callId'] === callId)
    return (await this.client.next(isMeant)) as CallFrame
  }

  answer({ dispatchId }: { dispatchId: string }, outcome: Record<string, unknown>): void {
    this.client.send({ type: 'call/result', dispatchId, ...outcome })
  }
}
