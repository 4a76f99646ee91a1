import { isAbsolute, resolve } from 'node:path'
import { z } from 'zod'
import { type AppsConfig, appsConfig, appsSettings } from './config/apps.ts'
import { type ClientConfig, clientConfig, clientSettings } from './config/client.ts'
import { type DatabasesConfig, databasesConfig, databasesSettings } from './config/databases.ts'
import { type DeploysConfig, deploysConfig, deploysSettings } from './config/deploys.ts'
import { ConfigError, configError, problemsOf } from './config/errors.ts'
import { type CgroupPlace, generalSettings } from './config/general.ts'
import { isLocalMode, networkSettings, type PublicAddress, publicAddress } from './config/network.ts'
import { type OutboundConfig, outboundConfig, outboundSettings } from './config/outbound.ts'
import { portOverlaps } from './config/port-ranges.ts'
import { type ServiceManagerConfig, serviceManagerConfig } from './config/service-manager.ts'
import type { Range } from './config/values.ts'
import { type Plans, shippedPlans } from './plans.ts'

export type { AppsConfig, ClientConfig, DeploysConfig, Range }
export { ConfigError }

/** Everything that an operator can set, validated. Made by `loadConfig`; no other code reads the environment. */
export interface Config {
  readonly host: string
  readonly port: number
  readonly dataDirectory: string
  /** The operator's PostgreSQL; `undefined` for the embedded one. */
  readonly databaseUrl: string | undefined
  /** 32 bytes in base64; `undefined` for the key in the data directory. */
  readonly secretKey: string | undefined
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error'
  /** True when the server listens on loopback alone and nothing public is configured, as on a laptop. */
  readonly localMode: boolean
  readonly apps: AppsConfig
  /** The number of processes of the gateway. */
  readonly gatewayWorkers: number
  /** The regions that projects may name; empty to allow any slug. */
  readonly regions: readonly string[]
  readonly defaultRegion: string
  readonly plans: Plans
  readonly outbound: OutboundConfig
  readonly webhooks: {
    /** How long events and their deliveries are kept. */
    readonly retentionMs: number
  }
  /** Addresses and networks (CIDR) whose `X-Forwarded-*` headers are trusted. */
  readonly trustedProxies: readonly string[]
  /** How long entries of the audit log are kept. */
  readonly auditRetentionDays: number
  /** The bearer token for `/metrics`; `undefined` closes `/metrics`. */
  readonly metricsToken: string | undefined
  readonly publicAddress: PublicAddress
  /** How long an upload may send nothing before it is aborted. */
  readonly uploadIdleTimeoutMs: number
  /**
   * Unprivileged uids for a server that runs as root: the first for its own PostgreSQL cluster, the last for the
   * clusters of users' databases, the others for apps.
   */
  readonly uids: Range
  /** The extent of a stop by SIGTERM: everything, or the server alone. */
  readonly onStop: 'all' | 'server'
  /** The control groups of Linux that the server may use; see `parseHierarchy`. */
  readonly cgroups: CgroupPlace
  /** How a server is replaced by another one at the same address, in milliseconds. */
  readonly handover: {
    /** How long the new server may take to become ready. */
    readonly readyMs: number
    /** How long the former server may take to finish uploads and other requests. */
    readonly finishMs: number
  }
  readonly deploys: DeploysConfig
  readonly databases: DatabasesConfig
  /** The `PATH` of the server, on which it finds git. */
  readonly path: string
  readonly serviceManager: ServiceManagerConfig
}

/** Flags of the command line; each overrides its variable. */
export interface ConfigFlags {
  readonly host?: string | undefined
  readonly port?: string | undefined
  readonly dataDir?: string | undefined
}

type Environment = Readonly<Record<string, string | undefined>>

const settings = {
  ...generalSettings,
  ...networkSettings,
  ...appsSettings,
  ...outboundSettings,
  ...deploysSettings,
  ...databasesSettings,
}

const variables = z.object(settings).superRefine((set, context) => {
  for (const { variable, message } of portOverlaps(set)) {
    context.addIssue({ code: 'custom', path: [variable], message })
  }
})

/**
 * Reads the server's address and the API key for `fairlead api`, which needs nothing else of the configuration.
 *
 * @throws ConfigError that names the wrong variables, without their values
 */
export function loadClientConfig(environment: Environment = process.env): ClientConfig {
  return clientConfig(environment)
}

/**
 * Reads the configuration from the environment and the command line's flags.
 *
 * @throws ConfigError that names every wrong variable and says what it must be
 */
export function loadConfig(flags: ConfigFlags = {}, environment: Environment = process.env): Config {
  const given = {
    ...environment,
    ...(flags.host === undefined ? {} : { FAIRLEAD_HOST: flags.host }),
    ...(flags.port === undefined ? {} : { FAIRLEAD_PORT: flags.port }),
    ...(flags.dataDir === undefined ? {} : { FAIRLEAD_DATA_DIR: flags.dataDir }),
  }
  const known = knownSettings()
  const unknown = Object.keys(environment).filter((key) => key.startsWith('FAIRLEAD_') && !known.includes(key))
  const parsed = variables.safeParse(given)
  const problems = [
    ...unknown.map((key) => `${key} is not a setting of Fairlead`),
    ...(parsed.success ? [] : problemsOf(parsed.error)),
  ]
  if (!parsed.success || problems.length > 0) throw configError(problems)
  return assemble(parsed.data, environment)
}

/** Returns the names of all settings. */
export function knownSettings(): string[] {
  return Object.keys({ ...settings, ...clientSettings })
}

function assemble(set: z.output<typeof variables>, environment: Environment): Config {
  const path = environment['PATH'] ?? '/usr/local/bin:/usr/bin:/bin'
  const localMode = isLocalMode(set)
  return {
    host: set.FAIRLEAD_HOST,
    port: set.FAIRLEAD_PORT,
    dataDirectory: isAbsolute(set.FAIRLEAD_DATA_DIR) ? set.FAIRLEAD_DATA_DIR : resolve(set.FAIRLEAD_DATA_DIR),
    databaseUrl: set.DATABASE_URL,
    secretKey: set.FAIRLEAD_SECRET_KEY,
    logLevel: set.FAIRLEAD_LOG_LEVEL,
    localMode,
    apps: appsConfig(set),
    gatewayWorkers: set.FAIRLEAD_GATEWAY_WORKERS,
    regions: set.FAIRLEAD_REGIONS,
    defaultRegion: set.FAIRLEAD_DEFAULT_REGION ?? set.FAIRLEAD_REGIONS[0] ?? 'local',
    plans: set.FAIRLEAD_PLANS_FILE ?? shippedPlans,
    outbound: outboundConfig(set, localMode),
    webhooks: { retentionMs: set.FAIRLEAD_WEBHOOK_RETENTION_DAYS * 24 * 3_600_000 },
    trustedProxies: set.FAIRLEAD_TRUSTED_PROXIES,
    auditRetentionDays: set.FAIRLEAD_AUDIT_RETENTION,
    metricsToken: set.FAIRLEAD_METRICS_TOKEN,
    publicAddress: publicAddress(set),
    uploadIdleTimeoutMs: set.FAIRLEAD_UPLOAD_IDLE_TIMEOUT,
    uids: set.FAIRLEAD_UIDS,
    onStop: set.FAIRLEAD_ON_STOP,
    cgroups: set.FAIRLEAD_CGROUPS,
    handover: { readyMs: set.FAIRLEAD_HANDOVER_TIMEOUT, finishMs: set.FAIRLEAD_RETIRE_TIMEOUT },
    deploys: deploysConfig(set),
    databases: databasesConfig(set, environment, path),
    path,
    serviceManager: serviceManagerConfig(environment),
  }
}

/** Returns where others reach the server: the configured origin, or the public host with the port listened on. */
export function publicOrigin({ publicAddress }: Pick<Config, 'publicAddress'>, port: number): string {
  if ('origin' in publicAddress) return publicAddress.origin
  const { host } = publicAddress
  return new URL(`http://${host.includes(':') ? `[${host}]` : host}:${port}`).origin
}
