import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { plansFile } from '../plans.ts'
import { type EdgeSet, edgeOrigin } from './edge.ts'
import { hostname, list, networks, origin, port, postgresUrl, range, seconds, slug, text } from './values.ts'

/** The place where the server may make control groups, `none` for nowhere: see `parseHierarchy`. */
export type CgroupPlace = 'none' | 'top' | 'delegated' | `${string}.service`

const cgroupPlace = z.custom<CgroupPlace>(
  (value) => typeof value === 'string' && /^(none|top|delegated|[\w@-][\w@.-]*\.service)$/.test(value),
  'must be none, top, delegated, or the name of a unit of systemd, such as fairlead-apps.service',
)

export const generalSettings = {
  DATABASE_URL: postgresUrl.optional(),
  FAIRLEAD_DATA_DIR: text.default('./.fairlead'),
  FAIRLEAD_SECRET_KEY: z
    .string()
    .refine((value) => /^[A-Za-z0-9+/]{43}=$/.test(value), 'must be 32 bytes in base64 (openssl rand -base64 32)')
    .optional(),
  FAIRLEAD_LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
  FAIRLEAD_REGIONS: list.pipe(z.array(slug)).default([]),
  FAIRLEAD_DEFAULT_REGION: slug.optional(),
  FAIRLEAD_PLANS_FILE: z.string().transform(readJsonFile).pipe(plansFile).optional(),
  // At least 7 days: longer than a delivery is retried.
  FAIRLEAD_WEBHOOK_RETENTION_DAYS: z
    .string()
    .regex(/^\d{1,4}$/, 'must be a number of days')
    .transform(Number)
    .refine((days) => days >= 7, 'must be at least 7 days')
    .default(30),
  FAIRLEAD_AUDIT_RETENTION: z
    .string()
    .regex(/^[1-9]\d{0,4}$/, 'must be a number of days')
    .transform(Number)
    .default(365),
  // At most an hour: a CI run exchanges another token before the key expires.
  FAIRLEAD_WORKFLOW_KEY_LIFE: seconds
    .refine((ms) => ms >= 1_000 && ms <= 3_600_000, 'must be 1 to 3600 seconds')
    .default(900_000),
  FAIRLEAD_METRICS_TOKEN: z
    .string()
    .regex(/^[\x21-\x7e]{16,}$/, 'must be at least 16 printable ASCII characters without spaces')
    .optional(),
  FAIRLEAD_UPLOAD_IDLE_TIMEOUT: seconds.default(60_000),
  FAIRLEAD_UIDS: range
    .refine(({ from }) => from >= 1000, 'must not hold the uids of the system, below 1000')
    .default({ from: 40000, to: 49999 }),
  FAIRLEAD_ON_STOP: z.enum(['all', 'server'], "must be 'all' or 'server'").default('all'),
  FAIRLEAD_CGROUPS: cgroupPlace.optional(),
  FAIRLEAD_HANDOVER_TIMEOUT: seconds.refine((ms) => ms > 0, 'must be more than 0').default(60_000),
  FAIRLEAD_RETIRE_TIMEOUT: seconds.default(3_600_000),
}

/** Reads a setting that is too large for a variable. */
function readJsonFile(path: string, context: z.RefinementCtx): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as unknown
  } catch (error) {
    context.addIssue({ code: 'custom', message: `cannot be read as JSON: ${(error as Error).message}` })
    return z.NEVER
  }
}

/** The server's public origin, such as `https://fairlead.example.com`; only its host if no origin is set. */
export type PublicAddress = { readonly origin: string } | { readonly host: string }

export const networkSettings = {
  FAIRLEAD_HOST: text.default('127.0.0.1'),
  FAIRLEAD_PORT: port.default(3000),
  FAIRLEAD_PUBLIC_URL: origin.optional(),
  FAIRLEAD_PUBLIC_HOST: hostname.optional(),
  FAIRLEAD_TRUSTED_PROXIES: networks.default([]),
}

export type NetworkSet = z.output<z.ZodObject<typeof networkSettings>>
type AppsDomain = { readonly FAIRLEAD_APPS_DOMAIN?: string | undefined }

/** True when the server listens only on loopback and nothing public is configured. */
export function isLocalMode(set: NetworkSet & AppsDomain & EdgeSet): boolean {
  return (
    isLoopback(set.FAIRLEAD_HOST) &&
    set.FAIRLEAD_PUBLIC_URL === undefined &&
    set.FAIRLEAD_PUBLIC_HOST === undefined &&
    set.FAIRLEAD_APPS_DOMAIN === undefined &&
    set.FAIRLEAD_DOMAIN === undefined &&
    set.FAIRLEAD_TRUSTED_PROXIES.length === 0
  )
}

export function publicAddress(set: NetworkSet & AppsDomain & EdgeSet): PublicAddress {
  const origin = edgeOrigin(set)
  if (origin !== null) return { origin }
  if (set.FAIRLEAD_PUBLIC_URL !== undefined) return { origin: set.FAIRLEAD_PUBLIC_URL }
  if (set.FAIRLEAD_PUBLIC_HOST !== undefined) return { host: set.FAIRLEAD_PUBLIC_HOST }
  const listensEverywhere = set.FAIRLEAD_HOST === '0.0.0.0' || set.FAIRLEAD_HOST === '::'
  return { host: (listensEverywhere ? set.FAIRLEAD_APPS_DOMAIN : undefined) ?? set.FAIRLEAD_HOST }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}

export interface OutboundConfig {
  readonly mode: 'public' | 'any'
  readonly allow: readonly string[]
  readonly ports: readonly number[]
}

export const outboundSettings = {
  FAIRLEAD_OUTBOUND: z.enum(['public', 'any']).optional(),
  FAIRLEAD_OUTBOUND_ALLOW: networks.default([]),
  FAIRLEAD_OUTBOUND_PORTS: list.pipe(z.array(port, 'must be ports joined by commas')).default([]),
}

export type OutboundSet = z.output<z.ZodObject<typeof outboundSettings>>

export function outboundConfig(set: OutboundSet, localMode: boolean): OutboundConfig {
  return {
    mode: set.FAIRLEAD_OUTBOUND ?? (localMode ? 'any' : 'public'),
    allow: set.FAIRLEAD_OUTBOUND_ALLOW,
    ports: set.FAIRLEAD_OUTBOUND_PORTS,
  }
}

/** The variables that systemd sets for the processes of a service (sd_notify(3), sd_watchdog_enabled(3)). */
export interface ServiceManagerConfig {
  /** The socket that takes notifications; `undefined` when no service manager started this process. */
  readonly notifySocket: string | undefined
  /** systemd kills a service that sends no keep-alive for this time; `undefined` for a service without a watchdog. */
  readonly watchdogMs: number | undefined
}

/** Ignores `WATCHDOG_PID`: it names the first process of the service, and a server that took over has the same duty. */
export function serviceManagerConfig(environment: Readonly<Record<string, string | undefined>>): ServiceManagerConfig {
  const socket = environment['NOTIFY_SOCKET'] ?? ''
  const microseconds = /^\d{1,15}$/.exec(environment['WATCHDOG_USEC'] ?? '')?.[0]
  const watchdogMs = Math.floor(Number(microseconds ?? 0) / 1000)
  return { notifySocket: socket === '' ? undefined : socket, watchdogMs: watchdogMs > 0 ? watchdogMs : undefined }
}
