import { networkInterfaces } from 'node:os'
import { describe, expect, it } from 'vitest'
import { AddressGuard, type AddressRules, type ResolveName } from '../../../server/backends/web/address-guard.ts'

const guardOf = (rules: Partial<AddressRules> = {}, resolve?: ResolveName) =>
  new AddressGuard({ allow: [], ports: [], ...rules }, resolve)

function codeOf(act: () => void): string | undefined {
  try {
    act()
  } catch (error) {
    return (error as { code?: string }).code
  }
  return undefined
}

const urlCode = (guard: AddressGuard, url: string) => codeOf(() => guard.assertUrl(new URL(url)))

/** What a lookup gives, or the code that it fails with. */
const lookedUp = (guard: AddressGuard, options: object = { all: true }): Promise<unknown> =>
  new Promise((resolve) => {
    guard.lookup('name.test', options, (error, address, family) => {
      resolve(error === null ? (family === undefined ? address : [address, family]) : error.code)
    })
  })

const blocked = [
  '127.0.0.1',
  '127.255.255.254',
  '0.0.0.0',
  '0.1.2.3',
  '10.0.0.1',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '169.254.169.254',
  '100.64.0.1',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.8',
  '192.0.2.1',
  '198.18.0.1',
  '198.51.100.1',
  '203.0.113.1',
  '224.0.0.1',
  '239.255.255.255',
  '240.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::127.0.0.1',
  '::8.8.8.8',
  '::ffff:127.0.0.1',
  '::ffff:10.0.0.1',
  '::ffff:0:127.0.0.1',
  '64:ff9b::127.0.0.1',
  '64:ff9b::8.8.8.8',
  '64:ff9b:1::1',
  '2002:7f00:1::',
  '2001:0:7f00:1::',
  '2001:db8::1',
  'fc00::1',
  'fd00:ec2::254',
  'fe80::1',
  'fec0::1',
  'ff02::1',
  '100::1',
  '3fff::1',
  '4000::1'
]
const open = ['8.8.8.8', '1.1.1.1', '172.32.0.1', '100.128.0.1', '::ffff:8.8.8.8', '2606:4700:4700::1111']

describe('the address guard (D7, reliability.md §1.8)', () => {
  it.each(blocked)('refuses %s', (address) => {
    const guard = guardOf()
    expect(codeOf(() => guard.assertAddress(address))).toBe('WEB_BLOCKED_URL')
    expect(urlCode(guard, `http://${address.includes(':') ? `[${address}]` : address}/`)).toBe('WEB_BLOCKED_URL')
  })

  it.each(open)('lets %s be reached', (address) => {
    const guard = guardOf()
    expect(codeOf(() => guard.assertAddress(address))).toBeUndefined()
    expect(urlCode(guard, `http://${address.includes(':') ? `[${address}]` : address}/`)).toBeUndefined()
  })

  it.each([
    'http://127.1/',
    'http://0x7f.1/',
    'http://0177.0.0.1/',
    'http://2130706433/',
    'http://①②⑦.0.0.1/',
    'http://%31%32%37.0.0.1/',
    'http://127.0.0.1./',
    'http://[::ffff:127.0.0.1]/',
    'http://[::ffff:7f00:1]/',
    'http://[0:0:0:0:0:ffff:7f00:0001]/',
    'http://0/',
    'http://169.254.43518/'
  ])('S17 is not fooled by the spelling %s', (url) => {
    expect(urlCode(guardOf(), url)).toBe('WEB_BLOCKED_URL')
  })

  it('refuses what is no address at all, also a missing one', () => {
    for (const address of ['', 'localhost', '127.1', undefined]) {
      expect(codeOf(() => guardOf().assertAddress(address))).toBe('WEB_BLOCKED_URL')
    }
  })

  it('refuses every address of this machine', () => {
    const own = Object.values(networkInterfaces()).flatMap((entries) => entries ?? [])
    expect(own.length).toBeGreaterThan(0)
    for (const { address } of own) expect(codeOf(() => guardOf().assertAddress(address))).toBe('WEB_BLOCKED_URL')
  })

  it('takes http and https alone, without credentials', () => {
    const guard = guardOf()
    for (const url of ['ftp://a.test/', 'file:///etc/passwd', 'data:text/plain,x', 'javascript:x', 'ws://a.test/']) {
      expect(urlCode(guard, url)).toBe('WEB_INVALID_URL')
    }
    for (const url of ['http://u@a.test/', 'http://:p@a.test/', 'https://u:p@a.test/']) {
      expect(urlCode(guard, url)).toBe('WEB_BLOCKED_URL')
    }
    expect(urlCode(guard, 'https://a.test:8443/x')).toBeUndefined()
  })

  it('holds to the ports, the usual ones included', () => {
    const guard = guardOf({ ports: [443, 8080] })
    expect(['http://a.test/', 'http://a.test:22/', 'https://a.test:80/'].map((url) => urlCode(guard, url))).toEqual([
      'WEB_BLOCKED_URL',
      'WEB_BLOCKED_URL',
      'WEB_BLOCKED_URL'
    ])
    expect(['https://a.test/', 'http://a.test:8080/'].map((url) => urlCode(guard, url))).toEqual([undefined, undefined])
  })

  it('allows what is configured, and nothing beside it', () => {
    const guard = guardOf({ allow: ['127.0.0.2', '10.1.0.0/16', 'fd00:1::/32', '::ffff:192.168.0.1'] })
    for (const address of ['127.0.0.2', '::ffff:127.0.0.2', '10.1.255.1', 'fd00:1::5', '192.168.0.1']) {
      expect(codeOf(() => guard.assertAddress(address))).toBeUndefined()
    }
    for (const address of ['127.0.0.1', '10.2.0.1', 'fd00:2::5', '192.168.0.2', '::127.0.0.2']) {
      expect(codeOf(() => guard.assertAddress(address))).toBe('WEB_BLOCKED_URL')
    }
  })

  it.each(['127.1', 'localhost', '10.0.0.0/33', '10.0.0.0/', '10.0.0.0/8/8', '', 'fd00::/129', '127.1/8'])(
    'does not start with %j as an allowed address',
    (entry) => {
      expect(() => guardOf({ allow: [entry] })).toThrow(JSON.stringify(entry))
    }
  )

  it('looks up all addresses of a name and refuses them all for one that is blocked', async () => {
    const resolved = (addresses: { address: string; family: number }[]) => guardOf({}, async () => addresses)
    const one = { address: '8.8.8.8', family: 4 }
    const two = { address: '2606:4700::1', family: 6 }
    expect(await lookedUp(resolved([one, two]))).toEqual([one, two])
    expect(await lookedUp(resolved([one, two]), {})).toEqual(['8.8.8.8', 4])
    expect(await lookedUp(resolved([one, two]), { family: 6 })).toEqual(['2606:4700::1', 6])
    expect(await lookedUp(resolved([one]), { family: 'IPv6' })).toBe('WEB_PROVIDER_ERROR')
    expect(await lookedUp(resolved([]))).toBe('WEB_PROVIDER_ERROR')
    expect(await lookedUp(resolved([one, { address: '127.0.0.1', family: 4 }]))).toBe('WEB_BLOCKED_URL')
    expect(await lookedUp(resolved([one, { address: '::1', family: 6 }]), { family: 4 })).toBe('WEB_BLOCKED_URL')
    const failing = guardOf({}, async () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' })))
    expect(await lookedUp(failing)).toBe('ENOTFOUND')
  })
})
