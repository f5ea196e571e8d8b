#!/usr/bin/env node
import { runCommand } from './command-line.ts'
import { runCommandLine } from './commands/run.ts'

await runCommand(() => runCommandLine(process.argv.slice(2), process))
