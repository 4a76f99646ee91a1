import { lookup } from 'node:dns/promises'
import { isLoopback } from './resolvers.ts'

export interface PortRange {
  readonly from: number
  readonly to: number
}

/** A service that the operator has named, on this machine or elsewhere. */
export interface Service {
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
