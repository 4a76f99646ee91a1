import { accessSync, constants, readFileSync, statSync } from 'node:fs'
import { isIP } from 'node:net'
import { z } from 'zod'
import type { Range } from './values.ts'
import { domain, list, port } from './values.ts'

export interface DnsServer {
  readonly address: string
  readonly port: number
}

/** The way to set the DNS records that prove control of a wildcard name (ACME's DNS-01). */
export type DnsUpdates =
  /** RFC 2136 by `nsupdate`, signed with the file's TSIG key. */
  | { readonly kind: 'nsupdate'; readonly server: string; readonly port: number; readonly keyFile: string }
  /** The operator's program, called as `PROGRAM add|remove NAME VALUE`. */
  | { readonly kind: 'command'; readonly program: string }

export interface EdgeConfig {
  /** Apps have names below it. */
  readonly domain: string
  readonly dashboardHost: string
  /** `ca` is a file with certificates that verify the authority's own TLS certificate. */
  readonly acme: { readonly email: string; readonly url: string; readonly ca: string | null }
  readonly httpPort: number
  readonly httpsPort: number
  /** The recursive servers to ask for records; null for the system's servers. */
  readonly dnsServers: readonly DnsServer[] | null
  readonly dnsUpdates: DnsUpdates | null
}

const letsEncrypt = 'https://acme-v02.api.letsencrypt.org/directory'

/** A name has 253 characters (RFC 1035, section 2.3.4), of which this leaves room for an app's label. */
const longestDomain = 190

const fits = (value: string, length: number) =>
  value.length <= length && value.split('.').every((label) => label.length <= 63)

const publicName = domain.refine(
  (value) => value.includes('.') && isIP(value) === 0,
  'must be a domain name with a dot, such as example.com',
)

const edgePort = port.refine((value) => value > 0, 'must be a port from 1 to 65535')

const server = z.string().transform((value, context): DnsServer => {
  const [, inBrackets, plain, number = '53'] = /^(?:\[([^\]]*)\]|([^[\]:]*))(?::(\d{1,5}))?$/.exec(value) ?? []
  const address = inBrackets ?? plain ?? value
  if (isIP(address) !== 0 && Number(number) > 0 && Number(number) <= 65535) return { address, port: Number(number) }
  context.addIssue({ code: 'custom', message: 'must be IP addresses such as 9.9.9.9,[2620:fe::fe]:53' })
  return z.NEVER
})

const hostAndPort = z.string().transform((value, context): { host: string; port: number } => {
  const { success, data } = server.safeParse(value)
  if (success) return { host: data.address, port: data.port }
  const [, host = '', number = '53'] = /^([a-z0-9.-]+)(?::(\d{1,5}))?$/.exec(value) ?? []
  if (domain.safeParse(host).success && Number(number) > 0 && Number(number) <= 65535) {
    return { host, port: Number(number) }
  }
  context.addIssue({ code: 'custom', message: 'must be a host name or an IP address, with or without :port' })
  return z.NEVER
})

const file = (mode: number, must: string) =>
  z
    .string()
    .startsWith('/', 'must be an absolute path')
    .superRefine((path, context) => {
      const problem = accessProblem(path, mode)
      if (problem !== null) context.addIssue({ code: 'custom', message: `${must}: ${path} (${problem})` })
    })

const certificates = file(constants.R_OK, 'must be a file that can be read').refine(
  (path) => /-----BEGIN CERTIFICATE-----/.test(readQuietly(path)),
  'must be a file with certificates in PEM',
)

export const edgeSettings = {
  FAIRLEAD_DOMAIN: publicName
    .refine((value) => fits(value, longestDomain), `must have at most ${longestDomain} characters, and 63 between dots`)
    .optional(),
  FAIRLEAD_DASHBOARD_HOST: publicName
    .refine((value) => fits(value, 253), 'must have at most 253 characters, and 63 between dots')
    .optional(),
  FAIRLEAD_ACME_EMAIL: z
    .string()
    .regex(/^[^\s@,;:<>"'()]{1,64}@[a-z0-9-]+(\.[a-z0-9-]+)+$/i, 'must be an e-mail address')
    .optional(),
  FAIRLEAD_ACME_URL: z
    .string()
    .refine((value) => URL.canParse(value) && isPlainHttps(new URL(value)), `must be an address such as ${letsEncrypt}`)
    .optional(),
  FAIRLEAD_ACME_CA: certificates.optional(),
  FAIRLEAD_EDGE_HTTP_PORT: edgePort.optional(),
  FAIRLEAD_EDGE_HTTPS_PORT: edgePort.optional(),
  FAIRLEAD_DNS_SERVERS: list
    .pipe(z.array(server))
    .refine((servers) => servers.length > 0, 'must name at least one server')
    .optional(),
  FAIRLEAD_DNS_UPDATE_SERVER: hostAndPort.optional(),
  FAIRLEAD_DNS_UPDATE_KEY: file(constants.R_OK, 'must be a file that can be read').optional(),
  FAIRLEAD_DNS_UPDATE_COMMAND: file(constants.X_OK, 'must be a program that can be executed').optional(),
}

export type EdgeSet = z.output<z.ZodObject<typeof edgeSettings>>

/** @returns null for a server that leaves TLS to others */
export function edgeConfig(set: EdgeSet): EdgeConfig | null {
  if (set.FAIRLEAD_DOMAIN === undefined) return null
  return {
    domain: set.FAIRLEAD_DOMAIN,
    dashboardHost: dashboardHost(set, set.FAIRLEAD_DOMAIN),
    acme: {
      email: set.FAIRLEAD_ACME_EMAIL ?? '',
      url: set.FAIRLEAD_ACME_URL ?? letsEncrypt,
      ca: set.FAIRLEAD_ACME_CA ?? null,
    },
    httpPort: set.FAIRLEAD_EDGE_HTTP_PORT ?? 80,
    httpsPort: httpsPort(set),
    dnsServers: set.FAIRLEAD_DNS_SERVERS ?? null,
    dnsUpdates: dnsUpdates(set),
  }
}

/** Returns the origin of the dashboard and the API; null for a server without an edge. */
export function edgeOrigin(set: EdgeSet): string | null {
  if (set.FAIRLEAD_DOMAIN === undefined) return null
  return new URL(`https://${dashboardHost(set, set.FAIRLEAD_DOMAIN)}:${httpsPort(set)}`).origin
}

export const httpsPort = (set: EdgeSet): number => set.FAIRLEAD_EDGE_HTTPS_PORT ?? 443

const dashboardHost = (set: EdgeSet, name: string): string => set.FAIRLEAD_DASHBOARD_HOST ?? `fairlead.${name}`

function dnsUpdates(set: EdgeSet): DnsUpdates | null {
  const { FAIRLEAD_DNS_UPDATE_SERVER: to, FAIRLEAD_DNS_UPDATE_KEY: keyFile } = set
  if (to !== undefined && keyFile !== undefined) return { kind: 'nsupdate', server: to.host, port: to.port, keyFile }
  const program = set.FAIRLEAD_DNS_UPDATE_COMMAND
  return program === undefined ? null : { kind: 'command', program }
}

/** Other settings that the edge replaces, or that also need ports. */
export interface OtherSettings {
  readonly FAIRLEAD_PORT: number
  readonly FAIRLEAD_GATEWAY_PORT: number
  readonly FAIRLEAD_RELEASE_PORTS: Range
  readonly FAIRLEAD_DATABASE_PORTS: Range
  readonly FAIRLEAD_PUBLIC_URL?: string | undefined
  readonly FAIRLEAD_PUBLIC_HOST?: string | undefined
  readonly FAIRLEAD_APPS_DOMAIN?: string | undefined
  readonly FAIRLEAD_APPS_SCHEME?: string | undefined
  readonly FAIRLEAD_APPS_PORT?: number | undefined
}

/** Finds conflicts between settings: the name of a variable and its requirement. */
export function edgeProblems(set: EdgeSet & OtherSettings): [variable: string, message: string][] {
  if (set.FAIRLEAD_DOMAIN === undefined) {
    const given = Object.keys(edgeSettings).filter((name) => set[name as keyof EdgeSet] !== undefined)
    return given.map((name) => [name, 'has no effect unless FAIRLEAD_DOMAIN is set'])
  }
  return [
    ...(set.FAIRLEAD_ACME_EMAIL === undefined ? [missingEmail] : []),
    ...replacedSettings(set),
    ...dashboardProblems(set, set.FAIRLEAD_DOMAIN),
    ...updateProblems(set),
    ...portProblems(set),
  ]
}

const missingEmail: [string, string] = [
  'FAIRLEAD_ACME_EMAIL',
  'must be set with FAIRLEAD_DOMAIN: the certificate authority writes to it when something is wrong',
]

function replacedSettings(set: OtherSettings): [string, string][] {
  const instead = {
    FAIRLEAD_PUBLIC_URL: 'FAIRLEAD_DASHBOARD_HOST names the host of the dashboard',
    FAIRLEAD_PUBLIC_HOST: 'apps have names below FAIRLEAD_DOMAIN',
    FAIRLEAD_APPS_DOMAIN: 'apps have names below FAIRLEAD_DOMAIN',
    FAIRLEAD_APPS_SCHEME: 'it is https',
    FAIRLEAD_APPS_PORT: 'FAIRLEAD_EDGE_HTTPS_PORT names the port',
  } as const
  return Object.entries(instead).flatMap(([name, reason]): [string, string][] =>
    set[name as keyof typeof instead] === undefined
      ? []
      : [[name, `must not be set together with FAIRLEAD_DOMAIN: ${reason}`]],
  )
}

/** Names of apps have a hyphen in their first label, so a host without it is never an app's. */
function dashboardProblems(set: EdgeSet, name: string): [string, string][] {
  const host = dashboardHost(set, name)
  const label = host.endsWith(`.${name}`) ? host.slice(0, -name.length - 1) : ''
  if (label.includes('.') || !label.includes('-')) return []
  return [['FAIRLEAD_DASHBOARD_HOST', `must have no hyphen before .${name}: names of apps have one`]]
}

function updateProblems(set: EdgeSet): [string, string][] {
  const { FAIRLEAD_DNS_UPDATE_SERVER: to, FAIRLEAD_DNS_UPDATE_KEY: key, FAIRLEAD_DNS_UPDATE_COMMAND: command } = set
  if (command !== undefined && (to !== undefined || key !== undefined)) {
    const message = 'must not be set together with FAIRLEAD_DNS_UPDATE_SERVER or FAIRLEAD_DNS_UPDATE_KEY'
    return [['FAIRLEAD_DNS_UPDATE_COMMAND', message]]
  }
  if (to !== undefined && key === undefined) {
    return [['FAIRLEAD_DNS_UPDATE_KEY', 'must be set with FAIRLEAD_DNS_UPDATE_SERVER']]
  }
  return key !== undefined && to === undefined
    ? [['FAIRLEAD_DNS_UPDATE_SERVER', 'must be set with FAIRLEAD_DNS_UPDATE_KEY']]
    : []
}

function portProblems(set: EdgeSet & OtherSettings): [string, string][] {
  const one = (number: number): Range => ({ from: number, to: number })
  const ports = {
    FAIRLEAD_EDGE_HTTPS_PORT: one(httpsPort(set)),
    FAIRLEAD_EDGE_HTTP_PORT: one(set.FAIRLEAD_EDGE_HTTP_PORT ?? 80),
    FAIRLEAD_PORT: one(set.FAIRLEAD_PORT),
    FAIRLEAD_GATEWAY_PORT: one(set.FAIRLEAD_GATEWAY_PORT),
    FAIRLEAD_RELEASE_PORTS: set.FAIRLEAD_RELEASE_PORTS,
    FAIRLEAD_DATABASE_PORTS: set.FAIRLEAD_DATABASE_PORTS,
  }
  const all = Object.entries(ports)
  return all.slice(0, 2).flatMap(([variable, { from }], index) =>
    all
      .slice(index + 1)
      .filter(([, range]) => from >= range.from && from <= range.to)
      .map(([other]): [string, string] => [variable, `(${from}) must not be a port of ${other}`]),
  )
}

function isPlainHttps({ protocol, username, password, hash }: URL): boolean {
  return protocol === 'https:' && `${username}${password}${hash}` === ''
}

function accessProblem(path: string, mode: number): string | null {
  try {
    accessSync(path, mode)
    return statSync(path).isDirectory() ? 'a folder' : null
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'error'
  }
}

function readQuietly(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
