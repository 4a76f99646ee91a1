import { isAbsolute, resolve } from 'node:path'
import { z } from 'zod'
import {
  type AddressRange,
  type AppsConfig,
  type AppsSet,
  appNetworkSettings,
  appsConfig,
  appsSettings,
  networkProblem,
} from './config/apps.ts'
import { clientSettings, tokenVariables } from './config/client.ts'
import { type DatabasesConfig, type DatabasesSet, databasesConfig, databasesSettings } from './config/databases.ts'
import {
  appDisk,
  type DeploysConfig,
  type DeploysSet,
  type DockerConfig,
  deploysConfig,
  deploysSettings,
  dockerConfig,
  dockerProblem,
  dockerSettings,
} from './config/deploys.ts'
import { type EdgeConfig, type EdgeSet, edgeConfig, edgeProblems, edgeSettings } from './config/edge.ts'
import { ConfigError, configError, problemsOf } from './config/errors.ts'
import {
  type CgroupPlace,
  generalSettings,
  isLocalMode,
  networkSettings,
  type OutboundConfig,
  outboundConfig,
  outboundSettings,
  type PublicAddress,
  publicAddress,
  type ServiceManagerConfig,
  serviceManagerConfig,
} from './config/server.ts'
import type { Range } from './config/values.ts'
import { effectivePlans, type Plans, shippedPlans } from './plans.ts'

export type { AddressRange, AppsConfig, DeploysConfig, EdgeConfig, Range }
export { ConfigError }

/** Everything that an operator can set, validated. No other code reads the environment. */
export interface Config {
  readonly host: string
  readonly port: number
  readonly dataDirectory: string
  /** The operator's PostgreSQL; `undefined` for the embedded one. */
  readonly databaseUrl: string | undefined
  /** 32 bytes in base64; `undefined` for the key in the data directory. */
  readonly secretKey: string | undefined
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error'
  /** True when the server listens only on loopback and nothing public is configured, as on a laptop. */
  readonly localMode: boolean
  readonly apps: AppsConfig
  /** HTTPS under the operator's domain, by a Caddy that this server runs; null when something else provides TLS. */
  readonly edge: EdgeConfig | null
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
  readonly auditRetentionDays: number
  /** The lifetime of a key that was exchanged for a token of a workflow run. */
  readonly workflowKeyLifeMs: number
  /** The bearer token for `/metrics`; `undefined` closes `/metrics`. */
  readonly metricsToken: string | undefined
  readonly publicAddress: PublicAddress
  /** The time without data after which an upload is aborted. */
  readonly uploadIdleTimeoutMs: number
  /**
   * Unprivileged uids for a server that runs as root: the first for its own PostgreSQL cluster, the last for the
   * clusters of users' databases, the others for apps.
   */
  readonly uids: Range
  /** The extent of a stop by SIGTERM: everything, or only the server. */
  readonly onStop: 'all' | 'server'
  /** The control groups of Linux that the server may use, see `parseHierarchy`; `null` to detect them. */
  readonly cgroups: CgroupPlace | null
  /** The addresses for networks of apps and builds; `null` to let them share the machine's network. */
  readonly appNetwork: AddressRange | null
  /** The addresses for the networks of containers, one network for each project. */
  readonly containerNetwork: AddressRange
  /** The engine that runs containers; null for a server that runs none. */
  readonly docker: DockerConfig | null
  /** The limits for the replacement of a server by another server at the same address, in milliseconds. */
  readonly handover: {
    /** The time for the new server to become ready. */
    readonly readyMs: number
    /** The time for the old server to finish uploads and other requests. */
    readonly finishMs: number
  }
  readonly deploys: DeploysConfig
  readonly databases: DatabasesConfig
  readonly path: string
  /** The socket of the ssh agent of the user who runs the server (`SSH_AUTH_SOCK`), if there is one. */
  readonly sshAgent: string | null
  readonly serviceManager: ServiceManagerConfig
}

export interface ConfigFlags {
  readonly host?: string | undefined
  readonly port?: string | undefined
  readonly dataDir?: string | undefined
}

type Environment = Readonly<Record<string, string | undefined>>

const settings = {
  ...generalSettings,
  ...networkSettings,
  ...appNetworkSettings,
  ...appsSettings,
  ...edgeSettings,
  ...outboundSettings,
  ...deploysSettings,
  ...databasesSettings,
  ...dockerSettings,
}

const variables = z.object(settings).superRefine((set, context) => {
  for (const { variable, message } of portOverlaps(set)) {
    context.addIssue({ code: 'custom', path: [variable], message })
  }
  for (const [variable, message] of edgeProblems(set)) context.addIssue({ code: 'custom', path: [variable], message })
  const problems = { DOCKER_HOST: dockerProblem(set), FAIRLEAD_CONTAINER_NETWORK: networkProblem(set) }
  for (const [variable, message] of Object.entries(problems)) {
    if (message !== null) context.addIssue({ code: 'custom', path: [variable], message })
  }
})

/**
 * Flags override the environment.
 *
 * @throws ConfigError that names every wrong variable and its valid values
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

export function knownSettings(): string[] {
  return [...Object.keys({ ...settings, ...clientSettings }), ...tokenVariables]
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
    edge: edgeConfig(set),
    gatewayWorkers: set.FAIRLEAD_GATEWAY_WORKERS,
    regions: set.FAIRLEAD_REGIONS,
    defaultRegion: set.FAIRLEAD_DEFAULT_REGION ?? set.FAIRLEAD_REGIONS[0] ?? 'local',
    plans: effectivePlans(set.FAIRLEAD_PLANS_FILE ?? shippedPlans, appDisk(set)),
    outbound: outboundConfig(set, localMode),
    webhooks: { retentionMs: set.FAIRLEAD_WEBHOOK_RETENTION_DAYS * 24 * 3_600_000 },
    trustedProxies: set.FAIRLEAD_TRUSTED_PROXIES,
    auditRetentionDays: set.FAIRLEAD_AUDIT_RETENTION,
    workflowKeyLifeMs: set.FAIRLEAD_WORKFLOW_KEY_LIFE,
    metricsToken: set.FAIRLEAD_METRICS_TOKEN,
    publicAddress: publicAddress(set),
    uploadIdleTimeoutMs: set.FAIRLEAD_UPLOAD_IDLE_TIMEOUT,
    uids: set.FAIRLEAD_UIDS,
    onStop: set.FAIRLEAD_ON_STOP,
    cgroups: set.FAIRLEAD_CGROUPS ?? null,
    appNetwork: set.FAIRLEAD_APP_NETWORK,
    containerNetwork: set.FAIRLEAD_CONTAINER_NETWORK,
    docker: dockerConfig(set),
    handover: { readyMs: set.FAIRLEAD_HANDOVER_TIMEOUT, finishMs: set.FAIRLEAD_RETIRE_TIMEOUT },
    deploys: deploysConfig(set),
    databases: databasesConfig(set, environment, path),
    path,
    sshAgent: environment['SSH_AUTH_SOCK'] || null,
    serviceManager: serviceManagerConfig(environment),
  }
}

/**
 * Returns the public origin of the server: the configured origin, or the public host with the port that it listens on.
 */
export function publicOrigin({ publicAddress }: Pick<Config, 'publicAddress'>, port: number): string {
  if ('origin' in publicAddress) return publicAddress.origin
  const { host } = publicAddress
  return new URL(`http://${host.includes(':') ? `[${host}]` : host}:${port}`).origin
}

type PortsSet = Pick<DeploysSet, 'FAIRLEAD_RELEASE_PORTS'> &
  Pick<AppsSet, 'FAIRLEAD_APP_PORTS' | 'FAIRLEAD_APPS_DOMAIN'> &
  Pick<EdgeSet, 'FAIRLEAD_DOMAIN'> &
  Pick<DatabasesSet, 'FAIRLEAD_DATABASE_PORTS' | 'FAIRLEAD_DATABASES_URL'>

export interface PortOverlap {
  readonly variable: string
  readonly message: string
}

function portOverlaps(set: PortsSet): PortOverlap[] {
  const used = (['FAIRLEAD_RELEASE_PORTS', 'FAIRLEAD_APP_PORTS', 'FAIRLEAD_DATABASE_PORTS'] as const).filter(
    (name) =>
      (name !== 'FAIRLEAD_APP_PORTS' || (set.FAIRLEAD_APPS_DOMAIN ?? set.FAIRLEAD_DOMAIN) === undefined) &&
      (name !== 'FAIRLEAD_DATABASE_PORTS' || set.FAIRLEAD_DATABASES_URL === undefined),
  )
  return used.flatMap((variable, index) =>
    used.slice(0, index).flatMap((other) => {
      const [one, two] = [set[variable], set[other]]
      if (one.to < two.from || one.from > two.to) return []
      return [{ variable, message: `(${one.from}-${one.to}) must not overlap ${other} (${two.from}-${two.to})` }]
    }),
  )
}
