import { lookup as systemLookup } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'
import { WebError } from './web.ts'

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Range = [Address, number]

/** All addresses of a name. */
export type ResolveName = (hostname: string) => Promise<{ address: string; family: number }[]>

export interface AddressRules {
  /** Addresses and CIDR ranges that may be reached although they are not public. */
  allow: readonly string[]
  /** Ports that may be reached; empty: every port. */
  ports: readonly number[]
  /** The setting that `allow` comes from, for what is wrong with it; `web.allowAddresses` when absent. */
  setting?: string
}

/** Public by its number, but answers the machines of one cloud alone. */
const metadataAddress = ipaddr.parse('168.63.129.16')
/**
 * All public IPv6 addresses lie in here. What does not, such as `::127.0.0.1`, `64:ff9b::/96` (NAT64) and IPv4-mapped addresses, may
 * stand for any IPv4 address.
 */
const publicIpv6 = ipaddr.parseCIDR('2000::/3')
const defaultPorts = new Map([
  ['http:', 80],
  ['https:', 443]
])

/**
 * Keeps requests whose URLs come from outside away from this machine and its network (backends.md D7; reliability.md §1.8). A client
 * needs all three: `assertUrl` before each request and each redirect, since an address in a URL is never looked up; `lookup` for its
 * sockets, which connect to just those addresses that were checked; and `assertAddress` on the peer of each new socket.
 */
export class AddressGuard {
  readonly #allowed: Range[]
  readonly #ports: ReadonlySet<number>
  readonly #resolve: ResolveName

  /** Throws for an entry of `allow` that is neither an address nor a range. */
  constructor(
    { allow, ports, setting = 'web.allowAddresses' }: AddressRules,
    resolve: ResolveName = (name) => systemLookup(name, { all: true })
  ) {
    this.#allowed = allow.map((entry) => rangeOf(entry, setting))
    this.#ports = new Set(ports)
    this.#resolve = resolve
  }

  /** Throws WEB_INVALID_URL for what is not http or https, WEB_BLOCKED_URL for credentials, ports and literal addresses. */
  assertUrl(url: URL): void {
    const port = defaultPorts.get(url.protocol)
    if (port === undefined) throw new WebError('WEB_INVALID_URL', 'only http and https URLs can be fetched')
    if (url.username !== '' || url.password !== '') throw blocked('it has credentials in it')
    const asked = url.port === '' ? port : Number(url.port)
    if (this.#ports.size > 0 && !this.#ports.has(asked)) throw blocked(`port ${asked} is not allowed`)
    // WHATWG URLs have undone other spellings by now: 127.1, 0x7f.1, 2130706433 and full-width digits all read 127.0.0.1.
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
    if (isIP(host) !== 0) this.assertAddress(host)
  }

  /** Throws WEB_BLOCKED_URL for an address that may not be reached. */
  assertAddress(address: string | undefined): void {
    if (address === undefined || !this.#mayReach(address)) {
      throw blocked(`${address ?? 'its address'} is not a public address`)
    }
  }

  /** For `net.connect`: fails with WEB_BLOCKED_URL if any of a name's addresses may not be reached. */
  readonly lookup: LookupFunction = (hostname, { all, family }, callback) => {
    this.#addressesOf(hostname).then(
      (addresses) => {
        const wanted = addresses.filter((entry) => !family || entry.family === familyOf(family))
        const [first] = wanted
        if (first === undefined) callback(new WebError('WEB_PROVIDER_ERROR', `${hostname} has no address`), '', 0)
        else if (all) callback(null, wanted)
        else callback(null, first.address, first.family)
      },
      (error: NodeJS.ErrnoException) => callback(error, '', 0)
    )
  }

  async #addressesOf(hostname: string): Promise<{ address: string; family: number }[]> {
    const addresses = await this.#resolve(hostname)
    // One that is refused condemns the others: what a name stands for is then not to be trusted.
    for (const { address } of addresses) this.assertAddress(address)
    return addresses
  }

  #mayReach(text: string): boolean {
    if (isIP(text) === 0) return false
    const address = parseAddress(text)
    if (this.#allowed.some((range) => isWithin(address, range))) return true
    if (address.range() !== 'unicast' || address.toString() === metadataAddress.toString()) return false
    if (address.kind() === 'ipv6' && !isWithin(address, publicIpv6)) return false
    return !isOwn(address)
  }
}

const familyOf = (family: number | 'IPv4' | 'IPv6'): number => (family === 'IPv4' ? 4 : family === 'IPv6' ? 6 : family)

const blocked = (reason: string): WebError => new WebError('WEB_BLOCKED_URL', `this URL may not be fetched: ${reason}`)

function rangeOf(entry: string, setting: string): Range {
  const [address = '', bits] = entry.split('/')
  // ipaddr.js alone would take `127.1`, and a range whose length is missing.
  if (isIP(address) === 0 || (bits !== undefined && !ipaddr.isValidCIDR(entry))) {
    throw new Error(`${setting}: ${JSON.stringify(entry)} is no address and no CIDR range`)
  }
  if (bits !== undefined) return ipaddr.parseCIDR(entry)
  const parsed = parseAddress(address)
  return [parsed, parsed.kind() === 'ipv4' ? 32 : 128]
}

function isWithin(address: Address, [base, bits]: Range): boolean {
  return address.kind() === base.kind() && address.match([base, bits])
}

/** Whether it is an address of this machine, some of which may be public. They change, so they are asked for each time. */
function isOwn(address: Address): boolean {
  return Object.values(networkInterfaces())
    .flatMap((entries) => entries ?? [])
    .some((entry) => parseAddress(entry.address).toString() === address.toString())
}

/** An IPv4-mapped address is the IPv4 address that it reaches. `text` is an address. */
function parseAddress(text: string): Address {
  if (isIP(text) === 4) return ipaddr.parse(text)
  // ipaddr.js takes `::127.0.0.1`, an address of its own, for a mapped one; URLs have no dotted form.
  return ipaddr.process(new URL(`http://[${text.replace(/%.*/, '')}]`).hostname.slice(1, -1))
}
