import { readdirSync, readFileSync } from 'node:fs'

/** Command lines of all processes that contain `text` and are not zombies. */
export function processesWith(text: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name))
    .flatMap((pid) => {
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
        return command.includes(text) ? [command] : []
      } catch {
        return []
      }
    })
}

let lastNumber = 0

/** Seconds for `sleep` that no other test uses, so that a process can be found by its command line. */
export const uniqueSleep = (): string => `600.${process.pid}${String(lastNumber++).padStart(4, '0')}`
