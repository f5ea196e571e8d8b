/**
 * Why a log cannot be opened, in one line for the operator. `exitCode` is the process's: 78 (configuration) when the directory,
 * the lock or the version is at fault, 74 (input/output) when the data is.
 * @typedef {'LOCKED' | 'UNUSABLE_DIRECTORY' | 'UNUSABLE_FILE' | 'NEWER_DATABASE' | 'MIGRATION_CHANGED' | 'NOT_DURABLE' | 'BAD_RUNTIME' | 'LOG_CORRUPT'} LogOpenCode
 */

export class LogOpenError extends Error {
  /** @override */
  name = 'LogOpenError'

  /**
   * @param {LogOpenCode} code
   * @param {string} message
   * @param {ErrorOptions} [options]
   */
  constructor(code, message, options) {
    super(message, options)
    this.code = code
    this.exitCode = code === 'LOG_CORRUPT' ? 74 : 78
  }
}
