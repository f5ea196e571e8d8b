import { Readable, Writable } from 'node:stream'

/** The server's end of a piped output: whatever its reader took is reported, and no more is sent than was taken. */
export class PipedOutput extends Readable {
  readonly #report: (bytes: number) => void
  #owed = 0

  constructor(report: (bytes: number) => void) {
    super()
    this.#report = report
  }

  /** A chunk from the host; `null` is the end. */
  accept(chunk: Uint8Array | null): void {
    if (chunk === null) this.push(null)
    else if (this.destroyed || this.push(chunk)) this.#report(chunk.length)
    else this.#owed += chunk.length
  }

  override _read(): void {
    if (this.#owed > 0) this.#report(this.#owed)
    this.#owed = 0
  }

  /** Nobody reads any more: the rest is taken and dropped, so that the process is not stuck. */
  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this._read()
    callback(error)
  }
}

/** The server's end of a piped standard input. A write is done when the process's pipe took it. */
export class PipedInput extends Writable {
  readonly #send: (data: Uint8Array | null) => void
  #waiting: ((error?: Error | null) => void) | undefined
  #isCut = false

  constructor(send: (data: Uint8Array | null) => void) {
    super()
    this.#send = send
    // A process that closed its input is no reason for the server to fall: the writer's own callback has the error.
    this.on('error', () => {})
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: (error?: Error | null) => void): void {
    this.#waiting = callback
    if (this.#isCut) this.cut()
    else this.#send(new Uint8Array(chunk))
  }

  override _final(callback: (error?: Error | null) => void): void {
    if (this.#isCut) return callback()
    this.#waiting = callback
    this.#send(null)
  }

  /** The host's answer to the one write or close under way. */
  taken(error?: string): void {
    const waiting = this.#waiting
    this.#waiting = undefined
    waiting?.(error === undefined ? null : new Error(error))
  }

  /** The process is gone: the write under way fails, and so does every later one. */
  cut(): void {
    this.#isCut = true
    this.taken('the process is gone')
  }
}
