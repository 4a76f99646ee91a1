import { lookup } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { isIPv4 } from 'node:net'
import type { Config } from '../../platform/config.ts'

export interface PortRange {
  readonly from: number
  readonly to: number
}

/** A service that the operator has configured, on this machine or elsewhere. */
interface Service {
  readonly host: string
  readonly port: number
}

/** The addresses that apps and builds may connect to, in addition to the internet. */
export interface Reach {
  /** Ports of this machine that they reach at 127.0.0.1, as without a separate network. */
  readonly loopback: readonly PortRange[]
  /** The part of `loopback` whose programs accept connections only from 127.0.0.1. */
  readonly localOnly: readonly PortRange[]
  readonly direct: readonly PortRange[]
  /** The port range of apps: a port is reachable after the gateway has opened it. `null` where apps have no ports. */
  readonly apps: { readonly ports: PortRange; readonly at: 'loopback' | 'direct' } | null
  readonly services: readonly Service[]
  /** Proxies and package mirrors, only for builds. */
  readonly mirrors: readonly Service[]
  /** `any` includes private addresses. */
  readonly outbound: { readonly mode: 'public' | 'any'; readonly allow: readonly string[] }
}

export interface Address {
  readonly address: string
  readonly port: number
}

/** Finds the services in http addresses within texts: the values of variables, or the settings of package managers. */
export function servicesIn(texts: readonly string[]): Service[] {
  const found = texts.flatMap((text) => text.match(/\bhttps?:\/\/[^\s"'`,;]+/g) ?? []).flatMap(serviceOf)
  return [...new Map(found.map((service) => [`${service.host}:${service.port}`, service])).values()]
}

function serviceOf(url: string): Service[] {
  if (!URL.canParse(url)) return []
  const { hostname, port, protocol } = new URL(url)
  return [{ host: hostname, port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port) }]
}

/** Resolves the services with the resolver of the system. The result lacks services that cannot be resolved. */
export async function resolveServices(services: readonly Service[]): Promise<Address[]> {
  const found = await Promise.all(
    services.map(async ({ host, port }) => {
      const addresses = await lookup(host, { family: 4, all: true }).catch(() => [])
      return addresses.map(({ address }) => ({ address, port }))
    }),
  )
  return found.flat()
}

export const loopbackPorts = (addresses: readonly Address[]): PortRange[] =>
  addresses.filter(({ address }) => isLoopback(address)).map(({ port }) => ({ from: port, to: port }))

/** Joins ranges that overlap or touch, because nftables accepts each port once. */
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

/** Builds read these settings of package managers and the Docker engine. */
const packageSettings = [
  '/etc/npmrc',
  '/usr/etc/npmrc',
  '/usr/local/etc/npmrc',
  '/etc/pip.conf',
  '/etc/xdg/pip/pip.conf',
  '/etc/docker/daemon.json',
]

export type ReachConfig = Pick<
  Config,
  'host' | 'port' | 'apps' | 'edge' | 'databases' | 'deploys' | 'outbound' | 'publicAddress' | 'localMode'
>

export async function configuredReach(config: ReachConfig): Promise<Reach> {
  const { apps, databases, deploys, outbound } = config
  const own = [one(config.port), ...(apps.mode === 'ports' ? [] : [one(apps.gatewayPort)])]
  const clusters = databases.url === undefined ? [databases.ports] : []
  const settings = await Promise.all(packageSettings.map((file) => readFile(file, 'utf8').catch(() => '')))
  const listensOnLoopback = isLoopback(config.host) || config.host === 'localhost'
  return {
    // In other modes the public addresses are not on loopback, and apps reach them only through a proxy on this
    // machine.
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

/** The ports in the addresses of the API and of apps. A proxy on this machine may listen on them. */
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

export interface Resolver {
  readonly named: string
  /** The destination of requests; loopback when the resolver runs on this machine. */
  readonly address: string
}

/** systemd-resolved refuses requests from other interfaces. This file names its upstream servers. */
const upstreamFile = '/run/systemd/resolve/resolv.conf'

/** Reads the IPv4 resolvers of the machine. */
export async function readResolvers(): Promise<Resolver[]> {
  const [own, upstream] = await Promise.all([read('/etc/resolv.conf'), read(upstreamFile)])
  return resolversOf(own, upstream)
}

/** @param upstream the file in which systemd-resolved names its upstream servers; empty without it */
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
