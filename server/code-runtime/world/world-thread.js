/**
 * The thread that one program runs in. It starts the program from a message, once this module and Node's loader are done: they would
 * meet whatever the program did to the language (code-mode.md §8).
 */
import { parentPort } from 'node:worker_threads'
import { apply, define, hidden, indexInText, parseJson, sliceText, ThePromise } from './intrinsics.js'
import { programName, reportFailure, writeStack } from './failure-report.js'
import { isLossy, losslessText, tooLong } from './lossless-text.js'
import { CallDesk, createErrorClass, createNamespace } from './namespace.js'
import { Outlet } from './outlet.js'
import { PipeLink } from './pipe-link.js'
import { PortLink } from './port-link.js'
import { createConsole, redirectStreams } from './program-console.js'

/** @import { BindingShape } from '../bindings.ts' */
/** @import { WorldSetup } from './hosted-world.js' */

const AsyncFunction = /** @type {FunctionConstructor} */ ((async () => {}).constructor)
const listenerCount = process.listenerCount.bind(process)

const lobby = /** @type {import('node:worker_threads').MessagePort} */ (parentPort)
lobby.once('message', (/** @type {WorldSetup} */ { way, maxOutputBytes }) => {
  // A speed bump: what a program sends to the well-known port arrives nowhere.
  lobby.close()
  const link = 'descriptor' in way ? new PipeLink(way.descriptor, receive) : new PortLink(way.port, way.taken, receive)
  const outlet = new Outlet((frame) => link.send(frame), maxOutputBytes)
  const desk = new CallDesk(outlet)
  let isRehearsed = false
  let isStarted = false

  /** @param {string} frame */
  function receive(frame) {
    if (isStarted) return desk.settle(frame)
    if (!isRehearsed) return rehearse(frame)
    isStarted = true
    // Said before the program can run: where it was not heard, another world may take the program.
    outlet.post('["started"]')
    void run(frame, outlet, desk)
  }

  /**
   * What a program takes its way through is compiled when it first runs: so another one has gone that way, with one call, before the world is
   * ready. Nothing of it is told.
   * @param {string} frame
   */
  function rehearse(frame) {
    isRehearsed = true
    const stage = new Outlet((said) => {
      if (said.startsWith('["call"')) stageDesk.settle('["reply",1,true]\n1')
      else if (said.startsWith('["done"')) outlet.post('["ready"]')
    }, maxOutputBytes)
    const stageDesk = new CallDesk(stage)
    void run(frame, stage, stageDesk)
  }

  // All that needs no program is done while the world is a spare.
  redirectStreams(outlet)
  const console = createConsole(outlet)
  Error.prepareStackTrace = writeStack
  process.on('uncaughtException', fail)
  // A program that listens itself has dealt with it.
  process.on('unhandledRejection', (reason) => {
    if (listenerCount('unhandledRejection') === 1) fail(reason)
  })

  /** @param {unknown} thrown */
  function fail(thrown) {
    outlet.fail('exception', reportFailure(thrown, outlet.room))
  }

  /** @param {string} frame that starts it @param {Outlet} outlet @param {CallDesk} desk */
  async function run(frame, outlet, desk) {
    const end = indexInText(frame, '\n')
    const program = sliceText(frame, end + 1)
    /** @type {BindingShape[]} */
    const shapes = parseJson(sliceText(frame, 0, end))[1]
    const names = []
    const values = []
    for (const shape of shapes) {
      const errorClass = createErrorClass(shape)
      names.push(shape.global)
      values.push(createNamespace(shape, desk, errorClass))
      if (shape.errorClass === undefined) continue
      names.push(shape.errorClass.name)
      values.push(errorClass)
    }
    names.push('console')
    values.push(console)
    /** @type {unknown} */
    let value
    try {
      // The constructor parses the body by itself, so that a stray brace cannot leave it.
      const body = new AsyncFunction(...names, `'use strict';\n${program}\n//# sourceURL=${programName}`)
      const completion = apply(body, undefined, values)
      // `await` reads `constructor`, which the program may have replaced on the prototype.
      define(completion, 'constructor', hidden(ThePromise))
      value = await completion
    } catch (error) {
      fail(error)
      return
    }
    complete(value, outlet)
  }

  /** @param {unknown} value @param {Outlet} outlet */
  function complete(value, outlet) {
    /** @type {string | undefined} */
    let text
    try {
      if (value !== undefined) text = losslessText(value, outlet.room)
    } catch (error) {
      if (error === tooLong) return outlet.exceed()
      outlet.fail('invalid-output', `The program's value is ${isLossy(error) ? error.lossy : 'not lossless JSON'}`)
      return
    }
    outlet.done(text)
  }
})
