import { randomBytes } from 'node:crypto'
import { open, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'

const shortest = 32

/**
 * The master secret that the signing secrets of tools are made from: the text of `file` where one is configured, else that of
 * `http-tools-secret` in the home directory, made at the first start, mode 0600. Rejects for a text of fewer than 32 characters.
 */
export async function readMasterSecret(home: string, file?: string): Promise<string> {
  const path = file ?? join(home, 'http-tools-secret')
  let text: string
  try {
    text = (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if (file !== undefined || (error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    text = randomBytes(32).toString('hex')
    await writePrivately(path, text)
  }
  if (text.length < shortest) throw new Error(`${path} must hold a secret of at least ${shortest} characters`)
  return text
}

async function writePrivately(path: string, text: string): Promise<void> {
  const temporary = `${path}.${process.pid}`
  const file = await open(temporary, 'w', 0o600)
  try {
    // The mode of `open` does not bind a file that is there already.
    await file.chmod(0o600)
    await file.writeFile(`${text}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, path)
}
