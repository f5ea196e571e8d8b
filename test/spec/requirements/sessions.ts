import type { RuleList } from '../requirements.ts'

/** Events, turns, approvals, the shipped policies, cards and errors: core.md §23 to §30. */
export const sessionRules: RuleList = [
  // §23 Durable events
  ['23.seq', 'seq starts at 0 and has no gap'],
  ['23.time', 'time is epoch milliseconds'],
  ['23.frozen', 'events are deeply frozen'],
  ['23.lossless', 'lossy data throws, and nothing is written'],
  ['23.observers', 'observers run after the commit, contained; they cannot append to the same session'],
  ['23.tool-call', 'tool/call: turn, step, callId, name, and the arguments as the model wrote them; log-only'],
  ['23.tool-result', 'tool/result: the message that cites its call, error only with a code, meta when there is one'],
  ['23.user-message', 'user/message: a whole message, appended to the surface'],
  ['23.approval-asked', 'approval/asked: id, toolName, callId and reason if any; log-only'],
  ['23.approval-decided', 'approval/decided: the same id, outcome, by whom, edited arguments; log-only'],
  ['23.approval-policy', 'approval/policy: the policy and its source; log-only'],
  ['23.code-dispatch', 'tool/code-dispatch-start and tool/code-dispatch'],
  ['23.turns', 'turn and step markers are numbered from 1'],
  ['23.not-in-event', 'value, failure message, token, contexts and conclusion are not in the event'],
  ['23.replay', 'all of them but the token are kept with the call, for replay'],
  ['23.citations', 'only messages and results cite: unique earlier seqs, at least one'],
  ['23.open-step', 'a call and its result name an open step, and the result answers a pending call of that step'],
  ['23.one-result', 'a call gets at most one result'],
  ['23.rewrite', 'a rewritten result changes its content only', 'caller', 'the server never rewrites a result'],
  ['23.repair-unknown', 'repair: a recorded call gets TOOL_OUTCOME_UNKNOWN, citing it'],
  ['23.repair-not-started', 'repair: a call that was only accepted gets TOOL_NOT_STARTED without a citation'],
  ['23.repair-ends', 'repair: then step/end and turn/end interrupted, with the time of the last event'],
  ['23.repair-waiting', 'repair: a call that waits for an approval keeps its step and turn open'],

  // §24 Turns and steps
  ['24.1', 'contexts come at the start of the next step, in model order, after every result of the batch'],
  ['24.2', 'a concluding batch ends the turn as completed, unless a context is queued'],
  ['24.3.clears', 'aborting a turn drops what is queued'],
  ['24.3.drain', 'contexts of the drain enter the next turn'],
  ['24.3.order', 'results, step/end, then turn/end with the first cause'],
  [
    '24.4',
    'tool calls of a truncated message are not executed',
    'caller',
    'the loop that reads the message is the caller’s'
  ],

  // §25 The approval service
  ['25.2', 'without an open turn a request rejects, with nothing logged'],
  ['25.3.pair', 'exactly one approval/asked and one approval/decided of one id, whatever the outcome'],
  ['25.3.append', 'an append that fails rejects the request'],
  ['25.4.aborted', 'aborted already: cancelled, nobody asked'],
  ['25.4.never', 'policy never: rejected, and no answerer can go around it'],
  ['25.4.owner', 'the first answerer that returns without next() owns the answer'],
  ['25.4.nobody', 'the end of the chain is unavailable'],
  ['25.4.invalid', 'a throwing answerer, or an unknown value, is unavailable'],
  ['25.4.late', 'an abort while waiting is cancelled at once, and the late answer is dropped'],
  ['25.5.effective', 'the last approval/policy event counts, else the configuration'],
  ['25.5.unknown', 'an unknown policy throws TypeError before anything is logged'],
  ['25.5.switch', 'the same value is no event; a real switch queues a notice'],
  ['25.6', 'a grant is for one call, which answerers know by its callId'],

  // §26 The repeat-tool reminder
  ['26.defaults', 'thresholds 3, 5, 8; todo_write excluded'],
  ['26.config', 'bad thresholds and previews are refused at load; thresholds come in any order'],
  ['26.patterns', '* is any run of characters, all else literal, anchored, case-sensitive'],
  ['26.tracked', 'tracked is what an include matches and no exclude'],
  ['26.1', 'calls without agent, and untracked ones, change nothing'],
  ['26.2', 'arguments are compared with sorted keys at every depth, arrays in order'],
  ['26.3', 'chains belong to one agent'],
  ['26.4.counts', 'a call counts before what is inside decides'],
  ['26.4.first', 'the reminder comes first among the contexts, of accepts and blocks, and changes nothing else'],
  ['26.5', 'a user message resets the chain, a plugin context does not'],
  ['26.reaches', 'what reaches post-execute counts; what does not neither counts nor resets'],
  ['26.message', 'the reminder is a notice of the plugin with tool and count'],
  ['26.short', 'at the lowest threshold it is short, without name and arguments'],
  ['26.detailed', 'at the others it names tool, count and arguments'],
  ['26.preview', 'long arguments are cut, and what is omitted is counted; the key is not cut'],
  ['26.hostile', 'deep arguments and __proto__ keys are borne'],

  // §27 Spill
  ['27.cap', 'maxInlineBytes is a non-negative integer; absent is off'],
  ['27.1', 'it acts on accepted text beyond the cap, failures too; not on values, nested calls, read, other blocks'],
  ['27.2', 'without session or store, or when saving fails, it warns and changes nothing'],
  ['27.3', 'the full text is saved with owner, source and suggested name'],
  ['27.4.preview', 'head and tail, then a notice with omitted bytes, locator and hint'],
  ['27.4.budget', 'the notice is reserved at its longest; head gets the odd byte; cuts respect UTF-8'],
  ['27.4.notice', 'an empty preview is the notice alone'],
  ['27.4.fits', 'a replacement beyond the cap leaves the original'],
  ['27.5', 'only content is replaced'],
  ['27.6', 'files are private, in a directory of their session, under random names'],
  ['27.7', 'the logged copy of a program’s call is capped too, read included'],

  // §28 Presenters
  ['28.cards', 'presenters give cards of the vocabulary, or the generic fallback'],
  ['28.replay', 'a result card is made on replay from what is stored'],

  // §29 Code mode
  ['29.run-code', 'run_code runs one program whose calls are ordinary nested executions'],
  ['29.scheduling', 'its calls are scheduled as batches are, in submission order'],
  ['29.forwarding', 'contexts, images and conclusions go to the outer call'],
  ['29.errors', 'failures are ToolCallError in the program, CODE_RUN_FAILED outside'],
  ['29.settlement', 'settlement aborts and drains what runs, and queued calls leave no events'],

  // §30 The error index
  ['30.coded', 'only a coded error yields info: the name of its class, and its code'],
  [
    '30.tool-not-found',
    'ToolNotFoundError / UNKNOWN_TOOL from dispatch, collapse, value replacement and wrapper normalisation'
  ],
  ['30.tool-args', 'ToolArgsError / INVALID_ARGS with violations'],
  ['30.tool-output', 'ToolOutputError / INVALID_TOOL_OUTPUT from body, wrapper and value replacement'],
  ['30.json-schema', 'JsonSchemaError / UNSUPPORTED_SCHEMA with violations'],
  ['30.aborted-before-dispatch', 'AbortError / ABORTED_BEFORE_DISPATCH when no body was invoked'],
  ['30.aborted', 'AbortError / ABORTED when one was'],
  ['30.timeout', 'ToolTimeoutError / TOOL_TIMEOUT'],
  ['30.code-run', 'CodeRunFailedError / CODE_RUN_FAILED'],
  ['30.tool-call-error', 'ToolCallError inside a program'],
  ['30.executors', 'OVERLOADED and PROVIDER_UNAVAILABLE in results'],
  ['30.outcome-unknown', 'ToolOutcomeUnknownError / TOOL_OUTCOME_UNKNOWN by repair'],
  ['30.not-started', 'ToolNotStartedError / TOOL_NOT_STARTED by repair'],
  ['30.type-error', 'TypeError for output, timeoutMs and an unknown approval policy'],
  ['30.plain-error', 'a plain Error for duplicates, reserved names, misuse and bad policy options'],
  ['30.uncoded', 'denials, blocks, plain throws and contract violations have no code'],
  ['30.unknown-turn-end', 'the code in the reason of a turn that an uncoded failure ended is UNKNOWN']
]
