import { faultOf, hasTooManyValues, maxValues } from '../json-text.js'
import { OutputLedger } from '../output-ledger.js'
import { failedReply, parseWorldFrame, startFrame, valueReply } from '../protocol.js'

/** @import { RuntimeBudgets } from '../budgets.ts' */
/** @import { FailureKind } from '../code-runtime.ts' */
/** @import { FromKeeper, Outcome, RunOrder, WorldFrame } from './messages.ts' */
/** @import { Ending, World } from './world.ts' */

/** Log entries told one by one at a time; of more the lines are one text. Each is an event: a flood of empty lines held the main loop up for seconds. */
const maxLiveTexts = 100
/** Frames that no honest world sends; a flood of them stalled a host for 700 ms (code-mode.md §8). */
const maxJunk = 1_000
/** So much of the text of such a frame counts like one more of them. */
const junkUnits = 1_024
/** An honest program may make calls that are refused; fifty of them, or so much of their arguments, count like one such frame. */
const refusalsPerJunk = 50
const refusedUnits = 1024 * 1024
/** Calls that wait for a reply, and the text of their arguments: more would pile up in the server's memory. */
const maxPendingCalls = 10_000
const maxPendingUnits = 64 * 1024 * 1024
/** A program has its process, and what it starts; a fork bomb is ended here. */
const maxProcesses = 128
/** Time over which blocking is told from computing: processor time is counted in steps of 10 ms. */
const windowMs = 250
const mib = 1024 * 1024

/** One program in its world, from the start to the one outcome that wins (code-mode.md §12). */
export class Run {
  #order
  #budgets
  #post
  #ledger
  /** @type {World | undefined} */
  #world
  /** Function names by namespace: what is not in here does not exist. @type {Map<string, Set<string>>} */
  #names
  /** @type {Outcome | undefined} */
  #outcome
  #onEnd
  #onLost
  #hasStarted = false
  #lastId = 0
  /** Length of the argument of each call that waits, by its id. @type {Map<number, number>} */
  #pending = new Map()
  #pendingUnits = 0
  #junk = 0
  #wallTimer = /** @type {NodeJS.Timeout | undefined} */ (undefined)
  /** @type {string[]} */
  #live = []
  #meter = { since: 0, cpuMs: 0, busyMs: 0, blockedMs: 0, window: { at: 0, cpuMs: 0, busyMs: 0 } }

  /**
   * @param {RunOrder} order @param {RuntimeBudgets} budgets @param {(message: FromKeeper) => void} post
   * @param {(world: World | undefined, isComplete: boolean) => void} onEnd takes the world, and whether its program came to its end by itself
   * @param {(reason: string) => void} onLost is to start it in another world, since that one ended before the program began
   */
  constructor(order, budgets, post, onEnd, onLost) {
    this.#order = order
    this.#budgets = budgets
    this.#post = post
    this.#onEnd = onEnd
    this.#onLost = onLost
    this.#ledger = new OutputLedger(budgets.maxOutputBytes)
    this.#names = new Map(order.bindings.map(({ global, names }) => [global, new Set(names)]))
  }

  /** @param {World} world a fresh one @returns {boolean} false if the run is over already */
  start(world) {
    if (this.#outcome !== undefined) return false
    this.#world = world
    world.listener = {
      frame: (frame) => this.#receive(frame),
      raw: (stream, text) => this.#output(() => this.#ledger.addRaw(stream, text)),
      ended: (ending) => this.#lose(ending)
    }
    world.send(startFrame(this.#order.bindings, this.#order.program))
    // Booting has cost time that is none of the program's. It is looked up while the program is on its way.
    const { cpuMs = 0, busyMs = 0 } = world.usage(true)
    this.#meter.cpuMs = cpuMs
    this.#meter.busyMs = busyMs
    this.#meter.since = performance.now()
    this.#meter.window = { at: this.#meter.since, cpuMs, busyMs }
    const { maxWallMs } = this.#budgets
    this.#wallTimer = setTimeout(
      () => this.fail('timeout', `The wall-clock limit (maxWallMs: ${maxWallMs} ms) is reached.`),
      maxWallMs
    )
    return true
  }

  /** @param {FailureKind} kind @param {string} message */
  fail(kind, message) {
    this.#settle({ type: 'failure', kind, message })
  }

  /** @param {number} id @param {string} valueText */
  reply(id, valueText) {
    this.#answered(id)
    if (this.#outcome === undefined) this.#world?.send(valueReply(id, valueText))
  }

  /** @param {number} id @param {string} message */
  refuse(id, message) {
    this.#answered(id)
    if (this.#outcome === undefined) this.#world?.send(failedReply(id, message))
  }

  /** Compares what the world has used with the budgets. */
  check() {
    if (this.#outcome !== undefined || this.#world === undefined || this.#world.hasEnded) return
    const { computeMs, maxRssMb } = this.#budgets
    const { cpuMs, busyMs, rssBytes, processes } = this.#world.usage()
    if (this.#charge(cpuMs, busyMs) > computeMs) {
      this.fail('timeout', `The compute limit (computeMs: ${computeMs} ms) is reached.`)
    } else if (rssBytes !== undefined && rssBytes > maxRssMb * mib) {
      this.fail('worker-exit', `The program's processes use more memory than maxRssMb (${maxRssMb} MiB).`)
    } else if (processes > maxProcesses) {
      this.fail('worker-exit', `The program runs more than ${maxProcesses} processes.`)
    }
  }

  /** Hands on the log entries since the last time. */
  flushLive() {
    if (this.#live.length === 0) return
    const texts = this.#live.length > maxLiveTexts ? [this.#live.join('\n')] : this.#live
    this.#post({ type: 'logs', run: this.#order.run, texts })
    this.#live = []
  }

  /**
   * Busy time of the program. Where processor time is known, that; a thread that a starved machine keeps waiting is busy too by the
   * event loop's account, and only when next to no processor time was used in all of a window is it taken for blocked (code-mode.md §11).
   * @param {number | undefined} cpuMs @param {number | undefined} busyMs
   */
  #charge(cpuMs, busyMs) {
    const meter = this.#meter
    const { window } = meter
    const now = performance.now()
    // A thread that is just ending may be told to have been busy for longer than it has lived.
    if (cpuMs === undefined) return Math.min((busyMs ?? 0) - meter.busyMs, now - meter.since)
    if (now - window.at >= windowMs) {
      const busy = Math.min((busyMs ?? 0) - window.busyMs, now - window.at)
      if (cpuMs - window.cpuMs < busy / 20) meter.blockedMs += busy
      meter.window = { at: now, cpuMs, busyMs: busyMs ?? 0 }
    }
    return cpuMs - meter.cpuMs + meter.blockedMs
  }

  /** @param {unknown} text */
  #receive(text) {
    const frame = parseWorldFrame(text)
    if (frame === undefined) this.#countJunk(typeof text === 'string' ? text.length : 0)
    else this.#act(frame)
  }

  /** @param {WorldFrame} frame */
  #act(frame) {
    switch (frame.type) {
      case 'log':
        return this.#output(() => this.#log(frame.text))
      case 'raw':
        return this.#output(() => this.#ledger.addRaw(frame.stream, frame.text))
      case 'call':
        return this.#call(frame)
      case 'done':
        return this.#complete(frame.value)
      case 'failed':
        return this.fail(frame.kind, frame.message)
      case 'exit':
        return this.fail('worker-exit', describe({ code: frame.code, signal: null }))
      case 'memory':
        return this.fail(
          'worker-exit',
          `The program ran out of memory (maxOldGenerationSizeMb: ${this.#budgets.maxOldGenerationSizeMb} MiB).`
        )
      case 'started':
        if (this.#hasStarted) return this.#countJunk()
        this.#hasStarted = true
        return
      case 'ready':
        return this.#countJunk()
    }
  }

  /** @param {Ending} ending */
  #lose(ending) {
    if (this.#hasStarted || this.#outcome !== undefined) return this.fail('worker-exit', describe(ending))
    // The world died as it was handed over, and has not begun: a spare that was killed a moment ago.
    clearTimeout(this.#wallTimer)
    this.#world = undefined
    this.#onLost(describe(ending))
  }

  /** Output still counts between the outcome and its report: bytes that were on their way. @param {() => void} add */
  #output(add) {
    add()
    if (this.#ledger.isOver) this.fail('output-limit', '')
  }

  /** @param {string} text */
  #log(text) {
    this.#ledger.addLog(text)
    if (this.#order.isLive && !this.#ledger.isOver) this.#live.push(text)
  }

  /** @param {Extract<WorldFrame, { type: 'call' }>} call */
  #call({ id, global, name, argument }) {
    if (this.#outcome !== undefined) return
    // Ids rise, so that each is answered once without remembering them.
    if (id <= this.#lastId) return this.#countJunk()
    this.#lastId = id
    if (!this.#names.get(global)?.has(name)) {
      this.#world?.send(failedReply(id, `There is no function ${JSON.stringify(name.slice(0, 200))}.`))
      return this.#countJunk()
    }
    const refusal = this.#refusalOf(argument)
    if (refusal !== undefined) {
      this.#world?.send(failedReply(id, refusal))
      return this.#waste(1 / refusalsPerJunk + argument.length / refusedUnits)
    }
    this.#pending.set(id, argument.length)
    this.#pendingUnits += argument.length
    // What the program printed before the call is seen before whatever the call does.
    this.flushLive()
    this.#post({ type: 'call', run: this.#order.run, id, global, name, argument })
  }

  /** Why a call is not passed on. @param {string} argument @returns {string | undefined} */
  #refusalOf(argument) {
    if (this.#pending.size >= maxPendingCalls)
      return `More than ${maxPendingCalls} calls are waiting for their results.`
    if (this.#pendingUnits + argument.length > maxPendingUnits) {
      return `The calls under way hold more than ${maxPendingUnits / mib} MiB of arguments.`
    }
    if (hasTooManyValues(argument)) return `The argument holds more than ${maxValues} values.`
    const fault = faultOf(argument)
    // An honest world does not send it.
    if (fault !== undefined) this.#countJunk(argument.length)
    return fault && `The argument is not lossless JSON: ${fault}.`
  }

  /** @param {number} id */
  #answered(id) {
    this.#pendingUnits -= this.#pending.get(id) ?? 0
    this.#pending.delete(id)
  }

  /** @param {string | undefined} text */
  #complete(text) {
    // What the ledger refuses for its size is not parsed before: a forged completion of 120 MB took this thread's memory with all its runs.
    const isParsed = text !== undefined && text.length <= this.#budgets.maxOutputBytes && !hasTooManyValues(text)
    const fault = isParsed ? faultOf(text) : undefined
    if (fault === undefined) this.#settle({ type: 'value', text })
    else this.fail('invalid-output', `The program's value is not lossless JSON: ${fault}`)
  }

  /** @param {number} [units] of its text */
  #countJunk(units = 0) {
    this.#waste(1 + units / junkUnits)
  }

  /** @param {number} share of the frames that may come to nothing */
  #waste(share) {
    this.#junk += share
    if (this.#junk > maxJunk)
      this.fail('worker-exit', "Too many of the program's calls were refused, or its messages meant nothing.")
  }

  /** @param {Outcome} outcome */
  #settle(outcome) {
    if (this.#outcome !== undefined) return
    this.#outcome = outcome
    clearTimeout(this.#wallTimer)
    // One turn of the loop reads what the pipes hold already.
    setImmediate(() => setImmediate(() => this.#conclude(outcome)))
  }

  /** @param {Outcome} outcome */
  #conclude(outcome) {
    this.flushLive()
    this.#post({ type: 'settled', run: this.#order.run, result: this.#ledger.settle(outcome) })
    const world = this.#world
    if (world !== undefined) world.listener = { frame: () => {}, raw: () => {}, ended: () => {} }
    this.#onEnd(world, outcome.type === 'value')
  }
}

/** @param {Ending} ending */
function describe({ code, signal, detail }) {
  const how = signal === null ? `exit code ${code}` : `signal ${signal}`
  return `The program's world ended before the program did (${detail ?? how}).`
}
