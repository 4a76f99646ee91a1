import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { isAbsolute, resolve } from 'node:path'
import { z } from 'zod'
import {
  domain,
  hostname,
  jsonVariables,
  list,
  megabytes,
  networks,
  origin,
  port,
  postgresUrl,
  type Range,
  range,
  seconds,
  slug,
  text,
} from './config/values.ts'
import { type Plans, plansFile, shippedPlans } from './plans.ts'

export type { Range }

/** Everything that an operator can set, checked. Made once by `loadConfig`; nothing else reads the environment. */
export interface Config {
  readonly host: string
  readonly port: number
  readonly dataDirectory: string
  /** An operator's PostgreSQL; `undefined` for the embedded one. */
  readonly databaseUrl: string | undefined
  /** 32 bytes in base64; `undefined` for the one kept in the data directory. */
  readonly secretKey: string | undefined
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error'
  /** Listens on loopback alone and nothing public is configured: a laptop. */
  readonly localMode: boolean
  readonly apps: AppsConfig
  /** Regions that projects may name; empty for any slug. */
  readonly regions: readonly string[]
  readonly defaultRegion: string
  readonly plans: Plans
  readonly outbound: {
    readonly mode: 'public' | 'any'
    readonly allow: readonly string[]
    readonly ports: readonly number[]
  }
  readonly webhooks: {
    /** How long events and their deliveries are kept. */
    readonly retentionMs: number
  }
  readonly trustedProxies: readonly string[]
  /** How long entries of the audit log are kept. */
  readonly auditRetentionDays: number
  /** Opens `/metrics`; `undefined` closes it. */
  readonly metricsToken: string | undefined
  /** The origin that others reach the server by, such as `https://fairlead.example.com`; its host alone if not told. */
  readonly publicAddress: { readonly origin: string } | { readonly host: string }
  /** How long an upload may send nothing. */
  readonly uploadIdleTimeoutMs: number
  /** Unprivileged uids that the server hands out when it is root: the first to its own cluster, the last to users' databases, the others to apps. */
  readonly uids: Range
  /** Which control groups of Linux may be used: see `parseHierarchy`. */
  readonly cgroups: 'top' | 'delegated'
  readonly deploys: DeploysConfig
  readonly databases: DatabasesConfig
  /** The server's own `PATH`, where it finds git. */
  readonly path: string
}

/** How apps are reached: each on a port of its own, or all on one listener by host name. */
export type AppsConfig =
  | { readonly mode: 'ports'; readonly publicHost: string; readonly ports: Range }
  | {
      readonly mode: 'hostnames'
      readonly domain: string
      readonly scheme: 'http' | 'https'
      /** The port in public addresses. */
      readonly publicPort: number
      /** The port that the gateway listens on. */
      readonly gatewayPort: number
    }

export interface DeploysConfig {
  /** The ports that releases listen on, on loopback. */
  readonly releasePorts: Range
  /** How many builds may run at the same time. */
  readonly builds: number
  readonly fetchTimeoutMs: number
  readonly buildTimeoutMs: number
  readonly startTimeoutMs: number
  /** How long an app must stay up after its first good answer. */
  readonly stableMs: number
  /** How long an old release may finish its requests after a switch. */
  readonly drainMs: number
  /** The most that the files of a commit, and a release with what its build made, may take on the disk. */
  readonly mostSourceBytes: number
  readonly mostReleaseBytes: number
  /** The most that a running app may take on the disk: its release, `HOME`, `TMPDIR` and the packages of its builds. */
  readonly mostAppBytes: number
  /** The most that one cache may take on the disk (the packages of an app, a repository), and all of them together. */
  readonly mostEachCacheBytes: number
  readonly mostAllCachesBytes: number
  /** Free space of the disk below which nothing is accepted or built. */
  readonly reserveBytes: number
  /** Variables given to git and to builds, such as a package registry's address. */
  readonly environment: Readonly<Record<string, string>>
}

export interface DatabasesConfig {
  /** An operator's PostgreSQL for users' databases, by an administrator's address; `undefined` for the embedded one. */
  readonly url: string | undefined
  /** The ports that embedded clusters listen on, on loopback. */
  readonly ports: Range
  /** How long a deleted database can be restored. */
  readonly retentionMs: number
  /** What npm needs to reach the package registry as this machine does. */
  readonly registryEnvironment: Readonly<Record<string, string>>
}

/** What `fairlead api` is told of the server that it asks. */
export interface ClientConfig {
  /** Ends with `/v1`. */
  readonly baseUrl: string
  readonly apiKey: string
}

/** Flags of the command line; each wins over its variable. */
export interface ConfigFlags {
  readonly host?: string | undefined
  readonly port?: string | undefined
  readonly dataDir?: string | undefined
}

/** Names every variable that is wrong, one a line. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/** For settings that are too large for a variable. */
function readJsonFile(path: string, context: z.RefinementCtx): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as unknown
  } catch (error) {
    context.addIssue({ code: 'custom', message: `cannot be read as JSON: ${(error as Error).message}` })
    return z.NEVER
  }
}

const settings = {
  DATABASE_URL: postgresUrl.optional(),
  FAIRLEAD_HOST: text.default('127.0.0.1'),
  FAIRLEAD_PORT: port.default(3000),
  FAIRLEAD_DATA_DIR: text.default('./.fairlead'),
  FAIRLEAD_SECRET_KEY: z
    .string()
    .refine((value) => /^[A-Za-z0-9+/]{43}=$/.test(value), 'must be 32 bytes in base64 (openssl rand -base64 32)')
    .optional(),
  FAIRLEAD_LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
  FAIRLEAD_PUBLIC_URL: origin.optional(),
  FAIRLEAD_PUBLIC_HOST: hostname.optional(),
  // Like the others, below the range from which systems take ports for outgoing connections.
  FAIRLEAD_RELEASE_PORTS: range.default({ from: 10000, to: 19999 }),
  FAIRLEAD_APP_PORTS: range.default({ from: 20000, to: 29999 }),
  FAIRLEAD_DATABASES_URL: postgresUrl
    .refine((url) => URL.canParse(url) && new URL(url).hostname !== '', 'must name the host that apps reach')
    .optional(),
  FAIRLEAD_DATABASE_PORTS: range.default({ from: 30000, to: 30999 }),
  FAIRLEAD_DATABASE_RETENTION_DAYS: z
    .string()
    .regex(/^\d{1,4}(\.\d+)?$/, 'must be a number of days below 10000')
    .transform((days) => Math.round(Number(days) * 86_400_000))
    .default(7 * 86_400_000),
  FAIRLEAD_APPS_DOMAIN: domain.optional(),
  FAIRLEAD_APPS_SCHEME: z.enum(['http', 'https']).default('https'),
  FAIRLEAD_APPS_PORT: port.optional(),
  FAIRLEAD_GATEWAY_PORT: port.default(8080),
  FAIRLEAD_REGIONS: list.pipe(z.array(slug)).default([]),
  FAIRLEAD_DEFAULT_REGION: slug.optional(),
  FAIRLEAD_PLANS_FILE: z.string().transform(readJsonFile).pipe(plansFile).optional(),
  FAIRLEAD_OUTBOUND: z.enum(['public', 'any']).optional(),
  FAIRLEAD_OUTBOUND_ALLOW: networks.default([]),
  FAIRLEAD_OUTBOUND_PORTS: list.pipe(z.array(port, 'must be ports joined by commas')).default([]),
  // Longer than a delivery may be under way.
  FAIRLEAD_WEBHOOK_RETENTION_DAYS: z
    .string()
    .regex(/^\d{1,4}$/, 'must be a number of days')
    .transform(Number)
    .refine((days) => days >= 7, 'must be at least 7 days')
    .default(30),
  FAIRLEAD_TRUSTED_PROXIES: networks.default([]),
  FAIRLEAD_AUDIT_RETENTION: z
    .string()
    .regex(/^[1-9]\d{0,4}$/, 'must be a number of days')
    .transform(Number)
    .default(365),
  FAIRLEAD_METRICS_TOKEN: z
    .string()
    .regex(/^[\x21-\x7e]{16,}$/, 'must be at least 16 printable ASCII characters without spaces')
    .optional(),
  FAIRLEAD_UPLOAD_IDLE_TIMEOUT: seconds.default(60_000),
  FAIRLEAD_UIDS: range
    .refine(({ from }) => from >= 1000, 'must not hold the uids of the system, below 1000')
    .default({ from: 40000, to: 49999 }),
  FAIRLEAD_BUILDS: z
    .string()
    .regex(/^[1-9]\d{0,2}$/, 'must be a whole number from 1 to 999')
    .transform(Number)
    .optional(),
  FAIRLEAD_FETCH_TIMEOUT: seconds.default(120_000),
  FAIRLEAD_BUILD_TIMEOUT: seconds.default(900_000),
  FAIRLEAD_START_TIMEOUT: seconds.default(60_000),
  FAIRLEAD_STABLE_TIME: seconds.default(1_000),
  FAIRLEAD_DRAIN_TIMEOUT: seconds.default(30_000),
  FAIRLEAD_CGROUPS: z.enum(['top', 'delegated']).default('top'),
  FAIRLEAD_SOURCE_MB: megabytes.default(1_000_000_000),
  FAIRLEAD_RELEASE_MB: megabytes.default(4_000_000_000),
  FAIRLEAD_APP_MB: megabytes.optional(),
  FAIRLEAD_CACHE_MB: megabytes.default(2_000_000_000),
  FAIRLEAD_ALL_CACHES_MB: megabytes.default(20_000_000_000),
  FAIRLEAD_RESERVE_MB: megabytes.default(1_000_000_000),
  FAIRLEAD_BUILD_ENV: jsonVariables.default({}),
}

const variables = z.object(settings).superRefine((set, context) => {
  const used = (['FAIRLEAD_RELEASE_PORTS', 'FAIRLEAD_APP_PORTS', 'FAIRLEAD_DATABASE_PORTS'] as const).filter(
    (name) =>
      (name !== 'FAIRLEAD_APP_PORTS' || set.FAIRLEAD_APPS_DOMAIN === undefined) &&
      (name !== 'FAIRLEAD_DATABASE_PORTS' || set.FAIRLEAD_DATABASES_URL === undefined),
  )
  for (const [index, name] of used.entries()) {
    for (const other of used.slice(0, index)) {
      const [one, two] = [set[name], set[other]]
      if (one.to < two.from || one.from > two.to) continue
      const message = `(${one.from}-${one.to}) must not overlap ${other} (${two.from}-${two.to})`
      context.addIssue({ code: 'custom', path: [name], message })
    }
  }
})

const clientVariables = z.object({
  FAIRLEAD_URL: z
    .string('must be set to the address of the server, such as https://fairlead.example.com')
    .refine((value) => URL.canParse(value) && isPlainHttp(new URL(value)), 'must be an http:// or https:// address')
    .transform((value) => `${value.replace(/\/+$/, '').replace(/\/v1$/, '')}/v1`),
  FAIRLEAD_API_KEY: z
    .string('must be set to an API key')
    .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII characters without spaces'),
})

function isPlainHttp({ protocol, search, hash, username, password }: URL): boolean {
  return /^https?:$/.test(protocol) && `${search}${hash}${username}${password}` === ''
}

/**
 * Reads where `fairlead api` asks, and with which key. Nothing of the server's own configuration is needed for it.
 * Throws `ConfigError` that names what is wrong, without its value.
 */
export function loadClientConfig(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): ClientConfig {
  const parsed = clientVariables.safeParse(environment)
  if (!parsed.success) throw configError(problemsOf(parsed.error))
  return { baseUrl: parsed.data.FAIRLEAD_URL, apiKey: parsed.data.FAIRLEAD_API_KEY }
}

function problemsOf(error: z.ZodError): string[] {
  return error.issues.map((issue) => `${issue.path.join('.')} ${issue.message}`)
}

function configError(problems: readonly string[]): ConfigError {
  return new ConfigError(`The configuration is not right:\n${problems.map((problem) => `  ${problem}`).join('\n')}`)
}

/**
 * Reads the configuration from the environment and the command line's flags.
 * Throws `ConfigError` that names every wrong variable with what it must be.
 */
export function loadConfig(
  flags: ConfigFlags = {},
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Config {
  const given = {
    ...environment,
    ...(flags.host === undefined ? {} : { FAIRLEAD_HOST: flags.host }),
    ...(flags.port === undefined ? {} : { FAIRLEAD_PORT: flags.port }),
    ...(flags.dataDir === undefined ? {} : { FAIRLEAD_DATA_DIR: flags.dataDir }),
  }
  const known = { ...settings, ...clientVariables.shape }
  const unknown = Object.keys(environment).filter((key) => key.startsWith('FAIRLEAD_') && !(key in known))
  const parsed = variables.safeParse(given)
  const problems = [
    ...unknown.map((key) => `${key} is not a setting of Fairlead`),
    ...(parsed.success ? [] : problemsOf(parsed.error)),
  ]
  if (!parsed.success || problems.length > 0) throw configError(problems)
  return assemble(parsed.data, environment)
}

function assemble(set: z.output<typeof variables>, environment: Readonly<Record<string, string | undefined>>): Config {
  const path = environment['PATH'] ?? '/usr/local/bin:/usr/bin:/bin'
  const localMode =
    isLoopback(set.FAIRLEAD_HOST) &&
    set.FAIRLEAD_PUBLIC_URL === undefined &&
    set.FAIRLEAD_PUBLIC_HOST === undefined &&
    set.FAIRLEAD_APPS_DOMAIN === undefined &&
    set.FAIRLEAD_TRUSTED_PROXIES.length === 0
  return {
    host: set.FAIRLEAD_HOST,
    port: set.FAIRLEAD_PORT,
    dataDirectory: isAbsolute(set.FAIRLEAD_DATA_DIR) ? set.FAIRLEAD_DATA_DIR : resolve(set.FAIRLEAD_DATA_DIR),
    databaseUrl: set.DATABASE_URL,
    secretKey: set.FAIRLEAD_SECRET_KEY,
    logLevel: set.FAIRLEAD_LOG_LEVEL,
    localMode,
    apps: appsConfig(set),
    regions: set.FAIRLEAD_REGIONS,
    defaultRegion: set.FAIRLEAD_DEFAULT_REGION ?? set.FAIRLEAD_REGIONS[0] ?? 'local',
    plans: set.FAIRLEAD_PLANS_FILE ?? shippedPlans,
    outbound: {
      mode: set.FAIRLEAD_OUTBOUND ?? (localMode ? 'any' : 'public'),
      allow: set.FAIRLEAD_OUTBOUND_ALLOW,
      ports: set.FAIRLEAD_OUTBOUND_PORTS,
    },
    webhooks: { retentionMs: set.FAIRLEAD_WEBHOOK_RETENTION_DAYS * 24 * 3_600_000 },
    trustedProxies: set.FAIRLEAD_TRUSTED_PROXIES,
    auditRetentionDays: set.FAIRLEAD_AUDIT_RETENTION,
    metricsToken: set.FAIRLEAD_METRICS_TOKEN,
    publicAddress: publicAddress(set),
    uploadIdleTimeoutMs: set.FAIRLEAD_UPLOAD_IDLE_TIMEOUT,
    uids: set.FAIRLEAD_UIDS,
    cgroups: set.FAIRLEAD_CGROUPS,
    deploys: {
      releasePorts: set.FAIRLEAD_RELEASE_PORTS,
      builds: set.FAIRLEAD_BUILDS ?? Math.max(1, Math.floor(availableParallelism() / 2)),
      fetchTimeoutMs: set.FAIRLEAD_FETCH_TIMEOUT,
      buildTimeoutMs: set.FAIRLEAD_BUILD_TIMEOUT,
      startTimeoutMs: set.FAIRLEAD_START_TIMEOUT,
      stableMs: set.FAIRLEAD_STABLE_TIME,
      drainMs: set.FAIRLEAD_DRAIN_TIMEOUT,
      mostSourceBytes: set.FAIRLEAD_SOURCE_MB,
      mostReleaseBytes: set.FAIRLEAD_RELEASE_MB,
      // What was just built may run, and has room to write.
      mostAppBytes: set.FAIRLEAD_APP_MB ?? 2 * set.FAIRLEAD_RELEASE_MB,
      mostEachCacheBytes: set.FAIRLEAD_CACHE_MB,
      mostAllCachesBytes: set.FAIRLEAD_ALL_CACHES_MB,
      reserveBytes: set.FAIRLEAD_RESERVE_MB,
      environment: set.FAIRLEAD_BUILD_ENV,
    },
    databases: {
      url: set.FAIRLEAD_DATABASES_URL,
      ports: set.FAIRLEAD_DATABASE_PORTS,
      retentionMs: set.FAIRLEAD_DATABASE_RETENTION_DAYS,
      registryEnvironment: { ...registryEnvironment(environment), PATH: path, ...set.FAIRLEAD_BUILD_ENV },
    },
    path,
  }
}

/** Where npm finds its settings, and those of them that say how a registry is reached. */
const registryVariable =
  /^(HOME|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR)|(https?|no|all)_proxy|npm_config_((https?_)?proxy|noproxy|registry|ca|cafile|strict_ssl|userconfig|globalconfig|cache|[@/].*))$/i

function registryEnvironment(environment: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const entries = Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return Object.fromEntries(entries.filter(([name]) => registryVariable.test(name)))
}

function appsConfig(set: z.output<typeof variables>): AppsConfig {
  if (set.FAIRLEAD_APPS_DOMAIN !== undefined) {
    return {
      mode: 'hostnames',
      domain: set.FAIRLEAD_APPS_DOMAIN,
      scheme: set.FAIRLEAD_APPS_SCHEME,
      publicPort: set.FAIRLEAD_APPS_PORT ?? (set.FAIRLEAD_APPS_SCHEME === 'https' ? 443 : 80),
      gatewayPort: set.FAIRLEAD_GATEWAY_PORT,
    }
  }
  const publicHost = set.FAIRLEAD_PUBLIC_HOST ?? set.FAIRLEAD_HOST
  if (publicHost === '0.0.0.0' || publicHost === '::') {
    throw configError([
      'FAIRLEAD_PUBLIC_HOST or FAIRLEAD_APPS_DOMAIN must be set when the server listens on every address, so that apps have addresses that others can use',
    ])
  }
  return { mode: 'ports', publicHost, ports: set.FAIRLEAD_APP_PORTS }
}

function publicAddress(set: z.output<typeof variables>): Config['publicAddress'] {
  if (set.FAIRLEAD_PUBLIC_URL !== undefined) return { origin: set.FAIRLEAD_PUBLIC_URL }
  if (set.FAIRLEAD_PUBLIC_HOST !== undefined) return { host: set.FAIRLEAD_PUBLIC_HOST }
  const listensEverywhere = set.FAIRLEAD_HOST === '0.0.0.0' || set.FAIRLEAD_HOST === '::'
  return { host: (listensEverywhere ? set.FAIRLEAD_APPS_DOMAIN : undefined) ?? set.FAIRLEAD_HOST }
}

/** Where others reach the server, without a path: the configured origin, or the public host with the port listened on. */
export function publicOrigin({ publicAddress }: Pick<Config, 'publicAddress'>, port: number): string {
  if ('origin' in publicAddress) return publicAddress.origin
  const { host } = publicAddress
  return new URL(`http://${host.includes(':') ? `[${host}]` : host}:${port}`).origin
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}
