import { writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { ConfigError, loadConfig } from '../../server/config/load.ts'
import { configSchema, settings } from '../../server/config/schema.ts'
import { showConfig } from '../../server/config/show.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'

function configFile(text: string): string {
  const path = join(temporaryDirectory(), 'config.json')
  writeFileSync(path, text)
  return path
}

function problems(input: Parameters<typeof loadConfig>[0]): readonly string[] {
  try {
    loadConfig(input)
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError)
    return (error as ConfigError).problems
  }
  return []
}

describe('loadConfig', () => {
  it('is all defaults when nothing is given, and frozen to the leaves', () => {
    const { config, sources } = loadConfig()
    expect(config).toMatchObject({
      host: '127.0.0.1',
      port: 7410,
      allowRemote: false,
      http: { bodyLimitBytes: 8_388_608 }
    })
    expect(config.home).toBe(join(homedir(), '.toolwright'))
    expect(config.auth.token).toBeUndefined()
    expect(new Set(sources.values())).toEqual(new Set(['default']))
    for (const part of [config, config.http, config.repeatReminder.thresholds, config.allowedHosts]) {
      expect(Object.isFrozen(part)).toBe(true)
    }
  })

  it('defaults of one load are not those of another', () => {
    expect(loadConfig().config.repeatReminder.thresholds).not.toBe(loadConfig().config.repeatReminder.thresholds)
    expect(Object.isFrozen(settings.get('repeatReminder.thresholds')?.schema.default)).toBe(false)
  })

  it('flags win over the environment, that over the file, that over the defaults, and each says so', () => {
    const file = configFile(
      '{\n  "port": 1,\n  "log": { "level": "warn" },\n  "http": {\n    "requestTimeoutMs": 5\n  }\n}'
    )
    const { config, sources } = loadConfig({
      file,
      env: { TOOLWRIGHT_PORT: '2', TOOLWRIGHT_LOG_LEVEL: 'error' },
      flags: new Map([['port', '3']])
    })
    expect([config.port, config.log.level, config.http.requestTimeoutMs]).toEqual([3, 'error', 5])
    expect(sources.get('port')).toBe('flag port')
    expect(sources.get('log.level')).toBe('environment TOOLWRIGHT_LOG_LEVEL')
    expect(sources.get('http.requestTimeoutMs')).toBe(`file ${file}:5`)
    expect(sources.get('host')).toBe('default')
  })

  it('finds the file by TOOLWRIGHT_CONFIG, and by the flag before that', () => {
    const [one, two] = [configFile('{"port":1}'), configFile('{"port":2}')]
    expect(loadConfig({ env: { TOOLWRIGHT_CONFIG: one } }).config.port).toBe(1)
    expect(loadConfig({ file: two, env: { TOOLWRIGHT_CONFIG: one } }).config.port).toBe(2)
  })

  it('reads every setting from its environment variable', () => {
    const texts: Record<string, string> = { boolean: 'true', string: 'x', object: '{}' }
    const special = new Map([
      ['allowedOrigins', 'http://a.example'],
      ['host', 'localhost'],
      ['web.searxngUrl', 'http://a.example'],
      ['web.searchService', '{"url":"http://a.example","results":"","fields":{"url":"url"}}']
    ])
    for (const { path, variable, schema } of settings.values()) {
      const list = schema['items']?.type === 'object' ? '[]' : '3,4'
      const text = schema['enum']?.[0] ?? (schema['type'] === 'array' ? list : texts[schema['type'] as string])
      const least = Math.max(7, (schema['minimum'] as number | undefined) ?? 0)
      const given = special.get(path) ?? (schema['type'] === 'integer' ? String(least) : text)
      const env = {
        [variable]: given,
        ...(path === 'shell.maxTimeoutMs' && { TOOLWRIGHT_SHELL_TIMEOUT_MS: '5' }),
        ...(path === 'jobs.maxWaitTimeoutMs' && { TOOLWRIGHT_JOBS_WAIT_TIMEOUT_MS: '5' })
      }
      expect([path, loadConfig({ env }).sources.get(path)]).toEqual([path, `environment ${variable}`])
    }
  })

  it.each([
    ['TOOLWRIGHT_HOME', 'home'],
    ['TOOLWRIGHT_HOST', 'host'],
    ['TOOLWRIGHT_PORT', 'port'],
    ['TOOLWRIGHT_TOKEN', 'auth.token'],
    ['TOOLWRIGHT_TOKEN_FILE', 'auth.tokenFile'],
    ['TOOLWRIGHT_ALLOW_REMOTE', 'allowRemote'],
    ['TOOLWRIGHT_HTTP_BODY_LIMIT_BYTES', 'http.bodyLimitBytes'],
    ['TOOLWRIGHT_WS_PING_INTERVAL_MS', 'ws.pingIntervalMs']
  ])('%s is the variable of %s', (variable, path) => {
    expect(settings.get(path)?.variable).toBe(variable)
  })

  it('reads lists from commas and from JSON', () => {
    const list = (text: string) => loadConfig({ env: { TOOLWRIGHT_ALLOWED_HOSTS: text } }).config.allowedHosts
    expect(list('a.example, [::1]:80,b:*')).toEqual(['a.example', '[::1]:80', 'b:*'])
    expect(list('["a.example"]')).toEqual(['a.example'])
    expect(list('')).toEqual([])
    expect(
      loadConfig({ env: { TOOLWRIGHT_REPEAT_REMINDER_THRESHOLDS: '2,9' } }).config.repeatReminder.thresholds
    ).toEqual([2, 9])
  })

  it('places paths where they were stated', () => {
    const file = configFile('{"plugins":["./a.js","/b.js","~/c.js"],"home":"state"}')
    const { config } = loadConfig({ file, cwd: '/elsewhere', env: { TOOLWRIGHT_TOKEN_FILE: 'token' } })
    const base = join(file, '..')
    expect(config.plugins).toEqual([join(base, 'a.js'), '/b.js', join(homedir(), 'c.js')])
    expect(config.home).toBe(join(base, 'state'))
    expect(config.auth.tokenFile).toBe('/elsewhere/token')
  })
})

describe('loadConfig refuses', () => {
  it('unknown keys by path and line, with the nearest known name', () => {
    const file = configFile('{\n  "http": {\n    "requestTimoutMs": 3\n  },\n  "nonsense": {},\n  "__proto__": 1\n}')
    expect(problems({ file })).toEqual([
      `${file}:3: unknown setting "http.requestTimoutMs"; did you mean http.requestTimeoutMs?`,
      `${file}:5: unknown setting "nonsense"`,
      expect.stringContaining('unknown setting "__proto__"')
    ])
  })

  it('keys that stand twice, sections that are none, and a file that is no object', () => {
    const twice = configFile('{"port":1,\n"port":2}')
    expect(problems({ file: twice })).toEqual([`${twice}:2: a key stands twice`])
    const flat = configFile('{"http":3}')
    expect(problems({ file: flat })).toEqual([`${flat}:1: http is a section, an object of settings`])
    const list = configFile('[]')
    expect(problems({ file: list })).toEqual([`${list}: the configuration is one JSON object`])
    expect(problems({ file: '/nowhere.json' })).toEqual([expect.stringContaining('/nowhere.json')])
  })

  it('a file that is no JSON, without quoting it', () => {
    const file = configFile('{\n  "auth": { "token": "s3cret-canary }\n}')
    const [problem] = problems({ file })
    expect(problem).toContain('not valid JSON')
    expect(problem).not.toContain('canary')
    // What YAML would take, JSON does not.
    expect(problems({ file: configFile('{port: 1}') })).toHaveLength(1)
    expect(problems({ file: configFile('{"port": 1,}') })).toHaveLength(1)
  })

  it('values of another kind, and says where each came from', () => {
    const file = configFile('{"port":"80","log":{"level":"loud"},"allowedHosts":"x","http":{"bodyLimitBytes":1.5}}')
    const found = problems({ file, env: { TOOLWRIGHT_WS_MAX_SOCKETS: '1e3', TOOLWRIGHT_ALLOW_REMOTE: 'yes' } })
    expect(found).toHaveLength(6)
    for (const path of ['port', 'log.level', 'allowedHosts', 'http.bodyLimitBytes', 'ws.maxSockets', 'allowRemote']) {
      expect(found.some((problem) => problem.startsWith(`${path} (`))).toBe(true)
    }
  })

  it('numbers out of range: ports, and durations that a timer cannot keep', () => {
    for (const [variable, text] of [
      ['TOOLWRIGHT_PORT', '65536'],
      ['TOOLWRIGHT_PORT', '-1'],
      ['TOOLWRIGHT_DRAIN_DRAIN_MS', '2147483648'],
      ['TOOLWRIGHT_HTTP_REQUEST_TIMEOUT_MS', '0'],
      ['TOOLWRIGHT_STORE_RETENTION_MS', '99999999999999999999']
    ] as const) {
      expect([text, problems({ env: { [variable]: text } }).length]).toEqual([text, 1])
    }
  })

  it('unknown TOOLWRIGHT_ variables, but for those that others set', () => {
    expect(problems({ env: { TOOLWRIGHT_PROT: '1' } })).toEqual([
      'unknown environment variable TOOLWRIGHT_PROT; did you mean TOOLWRIGHT_PORT?'
    ])
    const env = {
      TOOLWRIGHT_SERVICE_HOST: '10.0.0.1',
      TOOLWRIGHT_SERVICE_PORT_HTTP: '80',
      TOOLWRIGHT_PORT: 'tcp://10.0.0.1:80',
      TOOLWRIGHT_PORT_80_TCP_ADDR: '10.0.0.1',
      TOOLWRIGHT_URL: 'x'
    }
    expect(loadConfig({ env }).config.port).toBe(7410)
    expect(
      loadConfig({ env: { TOOLWRIGHT_SHELL: '1', TOOLWRIGHT_SESSION_ID: 's', TOOLWRIGHT_FROM_A_PLUGIN: 'x' } }).config
        .port
    ).toBe(7410)
  })

  it('unknown settings on the command line', () => {
    expect(problems({ flags: new Map([['http.nothing', '1']]) })).toEqual([
      'unknown setting "http.nothing" on the command line'
    ])
    expect(problems({ flags: new Map([['constructor', '1']]) })).toHaveLength(1)
  })

  it('an address that others can reach, unless that is meant', () => {
    for (const host of ['0.0.0.0', '::', '192.168.0.1', 'example.com', '::ffff:127.0.0.1', '127.0.0.1.evil', '127.1']) {
      expect([host, problems({ env: { TOOLWRIGHT_HOST: host } })]).toEqual([
        host,
        [expect.stringContaining('allowRemote')]
      ])
      expect(problems({ env: { TOOLWRIGHT_HOST: host, TOOLWRIGHT_ALLOW_REMOTE: 'true' } })).toEqual([])
    }
    for (const host of ['127.0.0.1', '127.8.9.10', 'localhost', '::1']) {
      expect([host, problems({ env: { TOOLWRIGHT_HOST: host } })]).toEqual([host, []])
    }
  })

  it('what contradicts itself', () => {
    expect(problems({ env: { TOOLWRIGHT_TOKEN: 'a', TOOLWRIGHT_TOKEN_FILE: 'b' } })).toHaveLength(1)
    expect(problems({ env: { TOOLWRIGHT_SHELL_TIMEOUT_MS: '700000' } })).toHaveLength(1)
    expect(problems({ env: { TOOLWRIGHT_ALLOWED_ORIGINS: 'https://a.example/' } })).toHaveLength(1)
    expect(problems({ env: { TOOLWRIGHT_ALLOWED_HOSTS: 'http://a' } })).toHaveLength(1)
    expect(problems({ env: { TOOLWRIGHT_REPEAT_REMINDER_THRESHOLDS: '3,3' } })).toHaveLength(1)
    expect(problems({ env: { TOOLWRIGHT_REPEAT_REMINDER_THRESHOLDS: '[]' } })).toHaveLength(1)
  })
})

describe('secrets', () => {
  it('are never printed, however one looks at them', () => {
    const loaded = loadConfig({ env: { TOOLWRIGHT_TOKEN: 's3cret-canary' } })
    const { token } = loaded.config.auth
    expect(token?.reveal()).toBe('s3cret-canary')
    const prints = [
      showConfig(loaded),
      JSON.stringify(loaded.config),
      inspect(loaded.config, { depth: 9, showHidden: true }),
      String(token)
    ]
    for (const text of prints) {
      expect(text).toContain('[secret]')
      expect(text).not.toContain('canary')
    }
  })

  it('are not part of what is said about them', () => {
    const file = configFile('{"auth":{"token":["s3cret-canary"]}}')
    expect(problems({ file })).toEqual([expect.not.stringContaining('canary')])
    expect(problems({ file: configFile('{"auth":{"token":""}}') })).toHaveLength(1)
  })
})

describe('the schema', () => {
  it('describes every setting, and gives each a default or leaves it out on purpose', () => {
    const without: string[] = []
    for (const { path, schema } of settings.values()) {
      expect([path, schema.description]).toEqual([path, expect.stringMatching(/\.$/)])
      if (schema.default === undefined) without.push(path)
    }
    expect(without).toEqual([
      'auth.token',
      'auth.tokenFile',
      'codeRuntime.pythonPath',
      ...['fetchProvider', 'searchProvider', 'searxngUrl', 'searchService', 'searchKey'].map((name) => `web.${name}`),
      'httpTools.signingSecretFile'
    ])
    expect(Object.keys(configSchema.properties)).toContain('http')
  })

  it('showConfig prints one line for each setting with its source', () => {
    const lines = showConfig(loadConfig({ env: { TOOLWRIGHT_PORT: '8' } }))
      .trimEnd()
      .split('\n')
    expect(lines).toHaveLength(settings.size)
    expect(lines).toContainEqual(expect.stringMatching(/^port = 8 +# environment TOOLWRIGHT_PORT$/))
    expect(lines).toContainEqual(expect.stringMatching(/^auth\.token = \(not set\) +# default$/))
  })
})
