/** The transport of code mode: reserved in every mode and every scope, always (core.md §6.1; code-mode.md §2.2). */
export const transportName = 'run_code'

/** What a tool may be called (core.md §6.2). */
export const toolNamePattern = /^[A-Za-z0-9_-]{1,64}$/

/** Stands for all tools that a configured order does not name (core.md §7.12). */
export const unlistedTools = '<unlisted-tools>'
