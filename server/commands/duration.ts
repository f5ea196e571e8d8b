import { UsageError } from '../command-line.ts'

const unitsMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** Milliseconds of a text such as `90s`, `15m`, `12h` or `30d`. Throws `UsageError`. */
export function durationMs(option: string, text: string): number {
  const [, number, unit] = /^(\d{1,12})(ms|s|m|h|d)$/.exec(text) ?? []
  if (number === undefined) throw new UsageError(`--${option} takes a time such as 90s, 15m, 12h or 30d`)
  return Number(number) * unitsMs[unit as keyof typeof unitsMs]
}
