import { closeSync, fstatSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { openInputFile } from '../../../server/backends/subprocess/input-file.js'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

it('is read from its start by whoever opens it, and has no name', () => {
  const directory = temporaryDirectory()
  vi.stubEnv('TMPDIR', directory)
  onTestFinished(() => void vi.unstubAllEnvs())
  const descriptor = openInputFile('said') ?? -1
  expect(readFileSync(descriptor, 'utf8')).toBe('said')
  for (const time of [1, 2]) expect([time, readFileSync(`/proc/self/fd/${descriptor}`, 'utf8')]).toEqual([time, 'said'])
  expect(fstatSync(descriptor).mode & 0o777).toBe(0o444)
  expect(readdirSync(directory)).toEqual([])
  closeSync(descriptor)
})

it('is not there where there is no room for it: the command gets what it is to read in another way', () => {
  vi.stubEnv('TMPDIR', join(temporaryDirectory(), 'nowhere'))
  onTestFinished(() => void vi.unstubAllEnvs())
  const before = readdirSync('/proc/self/fd').length
  expect(openInputFile('said')).toBeUndefined()
  expect(readdirSync('/proc/self/fd')).toHaveLength(before)
})
