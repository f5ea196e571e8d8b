import { FileError, type FileErrorCode } from './files.ts'

/** What a system code amounts to, and how to say it; a code that is not here is an FS_IO_ERROR. */
const outcomes = new Map<string, { code: FileErrorCode; phrase: string }>(
  Object.entries({
    ENOENT: { code: 'FS_NOT_FOUND', phrase: 'there is no such file' },
    ENOTDIR: { code: 'FS_NOT_FOUND', phrase: 'there is no such file, a part of the path is not a directory' },
    ENAMETOOLONG: { code: 'FS_NOT_FOUND', phrase: 'no file can have so long a name' },
    ELOOP: { code: 'FS_NOT_FOUND', phrase: 'there is no such file, its links lead nowhere' },
    EACCES: { code: 'FS_PERMISSION_DENIED', phrase: 'it may not be accessed' },
    EPERM: { code: 'FS_PERMISSION_DENIED', phrase: 'it may not be accessed' },
    EROFS: { code: 'FS_PERMISSION_DENIED', phrase: 'the file system is read-only' },
    ENOSPC: { code: 'FS_IO_ERROR', phrase: 'the disk is full' },
    EDQUOT: { code: 'FS_IO_ERROR', phrase: 'the disk quota is used up' }
  })
)

/** The FileError that a failed system call amounts to; a FileError stays what it is. */
export function fileError(path: string, error: unknown): FileError {
  if (error instanceof FileError) return error
  const systemCode = systemCodeOf(error) ?? ''
  const { code, phrase } = outcomes.get(systemCode) ?? {
    code: 'FS_IO_ERROR',
    phrase: `the system reports ${systemCode || String(error)}`
  }
  return new FileError(code, `${path}: ${phrase}`, { cause: error })
}

/** `ENOENT` and the like. */
export const systemCodeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code
