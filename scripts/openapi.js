// Writes openapi.yaml from the schemas of the routes; with --check it only says whether the file is up to date.
// Run from the source: node --import tsx scripts/openapi.js
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { openapi } from '../plugins/engine/openapi.ts'
import { buildApp } from '../server/app.ts'
import { loadConfig } from '../server/config/load.ts'

const root = new URL('../', import.meta.url)
const target = new URL('openapi.yaml', root)
const { version } = JSON.parse(await readFile(new URL('package.json', root), 'utf8'))

const home = await mkdtemp(join(tmpdir(), 'toolwright-openapi-'))
try {
  const { config } = loadConfig({
    flags: new Map([
      ['home', home],
      ['log.level', 'silent']
    ])
  })
  const app = await buildApp(config, {
    first: async (app) => {
      await app.register(openapi, { version })
    }
  })
  await app.ready()
  const text = stringify(app.swagger(), { aliasDuplicateObjects: false, lineWidth: 120 })
  await app.close()
  if (!process.argv.includes('--check')) await writeFile(target, text)
  else if (text !== (await readFile(target, 'utf8'))) {
    process.stderr.write('openapi.yaml is out of date: run node --import tsx scripts/openapi.js\n')
    process.exitCode = 1
  }
} finally {
  await rm(home, { recursive: true, force: true })
}
