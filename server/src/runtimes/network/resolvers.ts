import { readFile } from 'node:fs/promises'
import { isIPv4 } from 'node:net'

/** The resolvers of this machine, as programs in a network of their own reach them. */
export interface Resolver {
  /** As /etc/resolv.conf names it. */
  readonly named: string
  /** The address that requests are sent to; loopback when the resolver runs on this machine. */
  readonly address: string
}

/** systemd-resolved refuses requests of other interfaces; here it names the servers that it asks. */
const upstreamFile = '/run/systemd/resolve/resolv.conf'

/** Reads the machine's IPv4 resolvers. */
export async function readResolvers(): Promise<Resolver[]> {
  const [own, upstream] = await Promise.all([read('/etc/resolv.conf'), read(upstreamFile)])
  return resolversOf(own, upstream)
}

/** @param upstream the file in which systemd-resolved names the servers that it asks; empty without one */
export function resolversOf(resolvConf: string, upstream: string): Resolver[] {
  const asked = nameservers(upstream).find((address) => !isLoopback(address))
  return nameservers(resolvConf).map((named) => ({
    named,
    address: /^127\.0\.0\.5[34]$/.test(named) && asked !== undefined ? asked : named,
  }))
}

export const isLoopback = (address: string): boolean => address.startsWith('127.')

function nameservers(text: string): string[] {
  const found = text.split('\n').map((line) => /^\s*nameserver\s+(\S+)/.exec(line)?.[1] ?? '')
  return [...new Set(found.filter((address) => isIPv4(address)))]
}

const read = (path: string): Promise<string> => readFile(path, 'utf8').catch(() => '')
