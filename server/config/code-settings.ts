import { Type } from '@sinclair/typebox'
import { bytes, choice, durationMs, integer } from './setting-kinds.ts'

/** The section `codeMode`. */
export const codeModeSettings = Type.Object({
  maxParallelSubCalls: integer(10, 1, 'Calls of one program whose bodies overlap.'),
  maxSubCalls: integer(0, 0, 'Calls that one program may make in all; 0 is no limit.')
})

/** The section `codeRuntime`. */
export const codeRuntimeSettings = Type.Object({
  backend: choice(
    ['process', 'worker-thread', 'python', 'off'],
    'process',
    'What runs programs: TypeScript in processes, TypeScript in threads of the server (no containment), Python in processes, or nothing.'
  ),
  pythonPath: Type.Optional(
    Type.String({ minLength: 1, description: 'The Python interpreter; absent: the first usual one that answers.' })
  ),
  computeMs: durationMs(60_000, 'Busy time of a program.'),
  maxWallMs: durationMs(600_000, 'Time of a program by the clock; waiting for tools and approvals counts.'),
  maxOutputBytes: integer(64 * 1024 * 1024, 4, 'Output of a program: what it prints and its value, as JSON.'),
  maxOldGenerationSizeMb: integer(512, 1, 'JavaScript heap of a program, in MiB.'),
  maxRssMb: integer(1_024, 1, 'Resident memory of all processes of a program, in MiB.'),
  maxProgramBytes: bytes(1024 * 1024, 'Text of a program.'),
  terminateGraceMs: durationMs(1_000, 'Time after which a world that was told to end counts as stuck.'),
  spareWorlds: integer(1, 0, 'Worlds that are kept started for the next programs.', 64),
  maxConcurrentRuns: integer(8, 1, 'Programs running at a time.'),
  maxQueuedRuns: integer(64, 0, 'Programs waiting for their turn; beyond them a run fails with OVERLOADED.')
})
