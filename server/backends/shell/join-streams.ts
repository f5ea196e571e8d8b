/** Standard output, then a marked section of standard error if there is any (backends.md §3.1, §3.2). */
export function joinStreams(stdout: string, stderr: string): string {
  if (stderr === '') return stdout
  return `${stdout}${stdout === '' || stdout.endsWith('\n') ? '' : '\n'}[stderr]\n${stderr}`
}
