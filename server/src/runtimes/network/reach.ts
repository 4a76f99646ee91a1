import { lookup } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { isIPv4 } from 'node:net'
import type { Config } from '../../platform/config.ts'

export interface PortRange {
  readonly from: number
  readonly to: number
}

/** A service that the operator has named, on this machine or elsewhere. */
interface Service {
  /** A name or an address. */
  readonly host: string
  readonly port: number
}

/** The addresses that apps and builds may connect to besides the internet. */
export interface Reach {
  /** Ports of this machine that they reach at 127.0.0.1, as they would without a network of their own. */
  readonly loopback: readonly PortRange[]
  /** Those of `loopback` whose programs accept connections from 127.0.0.1 alone. */
  readonly localOnly: readonly PortRange[]
  /** Ports at the other addresses of this machine. */
  readonly direct: readonly PortRange[]
  /** The range of apps' own ports, which are reached once the gateway has opened them; `null` where apps have none. */
  readonly apps: { readonly ports: PortRange; readonly at: 'loopback' | 'direct' } | null
  readonly services: readonly Service[]
  /** Proxies and package mirrors, for builds alone. */
  readonly mirrors: readonly Service[]
  /** `any` includes private addresses. */
  readonly outbound: { readonly mode: 'public' | 'any'; readonly allow: readonly string[] }
}

/** A service at an IPv4 address. */
export interface Address {
  readonly address: string
  readonly port: number
}

/** Finds the services that texts name by http addresses: the values of variables, or the settings of package managers. */
export function servicesIn(texts: readonly string[]): Service[] {
  const found = texts.flatMap((text) => text.match(/\bhttps?:\/\/[^\s"'`,;]+/g) ?? []).flatMap(serviceOf)
  return [...new Map(found.map((service) => [`${service.host}:${service.port}`, service])).values()]
}

function serviceOf(url: string): Service[] {
  if (!URL.canParse(url)) return []
  const { hostname, port, protocol } = new URL(url)
  return [{ host: hostname, port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port) }]
}

/** Resolves the services as the system does. One that cannot be resolved is left out. */
export async function resolveServices(services: readonly Service[]): Promise<Address[]> {
  const found = await Promise.all(
    services.map(async ({ host, port }) => {
      const addresses = await lookup(host, { family: 4, all: true }).catch(() => [])
      return addresses.map(({ address }) => ({ address, port }))
    }),
  )
  return found.flat()
}

/** Returns the ports of addresses on loopback. */
export const loopbackPorts = (addresses: readonly Address[]): PortRange[] =>
  addresses.filter(({ address }) => isLoopback(address)).map(({ port }) => ({ from: port, to: port }))

/** Joins ranges that overlap or touch: nftables takes a port once. */
export function joined(ranges: readonly PortRange[]): PortRange[] {
  const all: PortRange[] = []
  for (const range of [...ranges].sort((one, other) => one.from - other.from)) {
    const last = all.at(-1)
    if (last !== undefined && range.from <= last.to + 1) {
      all[all.length - 1] = { from: last.from, to: Math.max(last.to, range.to) }
    } else all.push(range)
  }
  return all
}

/** The settings of this machine's package managers and its Docker engine, which builds read. */
const packageSettings = [
  '/etc/npmrc',
  '/usr/etc/npmrc',
  '/usr/local/etc/npmrc',
  '/etc/pip.conf',
  '/etc/xdg/pip/pip.conf',
  '/etc/docker/daemon.json',
]

/** Returns the services that apps and builds reach with this configuration, at the addresses that users are told. */
export async function configuredReach(
  config: Pick<
    Config,
    'host' | 'port' | 'apps' | 'edge' | 'databases' | 'deploys' | 'outbound' | 'publicAddress' | 'localMode'
  >,
): Promise<Reach> {
  const { apps, databases, deploys, outbound } = config
  const own = [one(config.port), ...(apps.mode === 'ports' ? [] : [one(apps.gatewayPort)])]
  const clusters = databases.url === undefined ? [databases.ports] : []
  const settings = await Promise.all(packageSettings.map((file) => readFile(file, 'utf8').catch(() => '')))
  const listensOnLoopback = isLoopback(config.host) || config.host === 'localhost'
  return {
    // Elsewhere the addresses that users are told are not on loopback, and a proxy on this machine is the only way there.
    loopback: [...clusters, ...(config.localMode ? own : [])],
    localOnly: clusters,
    direct: [...(listensOnLoopback ? [] : own), ...publicPorts(config)],
    apps: apps.mode === 'ports' ? appPorts(apps.ports, config.localMode, listensOnLoopback) : null,
    services: databases.url === undefined ? [] : [databaseService(databases.url)],
    mirrors: servicesIn([...Object.values(deploys.environment), ...settings]),
    outbound: { mode: outbound.mode, allow: outbound.allow },
  }
}

function appPorts(ports: PortRange, localMode: boolean, listensOnLoopback: boolean): Reach['apps'] {
  if (localMode) return { ports, at: 'loopback' }
  return listensOnLoopback ? null : { ports, at: 'direct' }
}

/** The ports in the addresses of the API and of apps, where a proxy on this machine may listen. */
function publicPorts({ publicAddress, apps, edge }: Pick<Config, 'publicAddress' | 'apps' | 'edge'>): PortRange[] {
  const api = 'origin' in publicAddress ? servicesIn([publicAddress.origin]).map(({ port }) => one(port)) : []
  const plain = edge === null ? [] : [one(edge.httpPort)]
  return [...api, ...plain, ...(apps.mode === 'hostnames' ? [one(apps.publicPort)] : [])]
}

function databaseService(url: string): Service {
  const { hostname, port } = new URL(url)
  return { host: hostname, port: port === '' ? 5432 : Number(port) }
}

const one = (port: number): PortRange => ({ from: port, to: port })

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
