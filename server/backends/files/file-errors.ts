import { FileError, type FileErrorCode } from './files.ts'

const codes: Record<string, FileErrorCode> = {
  ENOENT: 'FS_NOT_FOUND',
  ENOTDIR: 'FS_NOT_FOUND',
  ENAMETOOLONG: 'FS_NOT_FOUND',
  ELOOP: 'FS_NOT_FOUND',
  EACCES: 'FS_PERMISSION_DENIED',
  EPERM: 'FS_PERMISSION_DENIED'
}

const phrases: Partial<Record<FileErrorCode, string>> = {
  FS_NOT_FOUND: 'there is no such file',
  FS_PERMISSION_DENIED: 'it may not be accessed'
}

/** The FileError that a failed system call amounts to; a FileError stays what it is. */
export function fileError(path: string, error: unknown): FileError {
  if (error instanceof FileError) return error
  const systemCode = (error as NodeJS.ErrnoException).code ?? ''
  const code = Object.hasOwn(codes, systemCode) ? codes[systemCode]! : 'FS_IO_ERROR'
  const phrase = phrases[code] ?? `the system reports ${systemCode || String(error)}`
  return new FileError(code, `${path}: ${phrase}`, { cause: error })
}
