import path from 'node:path'

/**
 * The files of a log's directory.
 * @param {string} directory
 */
export function logFiles(directory) {
  return {
    database: path.join(directory, 'toolwright.db'),
    wal: path.join(directory, 'toolwright.db-wal'),
    lock: path.join(directory, 'toolwright.lock'),
    mark: path.join(directory, 'toolwright.mark'),
    ballast: path.join(directory, 'toolwright.ballast')
  }
}
