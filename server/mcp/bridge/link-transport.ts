import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'

/** A transport of ours: besides what the SDK asks, its end can be waited for. */
export interface LinkTransport extends Transport {
  /**
   * Ends the connection and what belongs to it; true when all is gone, false when it is not within some seconds. Again: the same.
   * `onclose` has been called by then.
   */
  end(): Promise<boolean>
}
