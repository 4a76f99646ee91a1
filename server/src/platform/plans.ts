import { z } from 'zod'

/** The tiers of accounts, as in the specification ("Limits"). */
export const tiers = ['free', 'pro', 'enterprise'] as const
export type Tier = (typeof tiers)[number]

export function isTier(value: string): value is Tier {
  return (tiers as readonly string[]).includes(value)
}

const count = z.int().nonnegative()

const account = z.strictObject({
  projects: count,
  apps: count,
  /** Deployments that wait to be built or are being built, and all starts of deployments within an hour. */
  building: count,
  deployments_per_hour: count,
  /** The size of all files, and the uploads at once. */
  storage_gb: z.number().positive(),
  uploads: count,
  /** Uploaded sources that are kept, and their size. */
  sources: count,
  sources_gb: z.number().positive(),
  /** The API keys of the account; only valid keys count. */
  api_keys: count,
  /** Tests, redeliveries and recoveries of webhooks within an hour, and the deliveries that are kept. */
  webhook_tests_per_hour: count,
  deliveries: count,
  /** Logs that are followed at once, on each server. */
  log_followers: count,
  /** Tasks of apps at once, one-off and scheduled, and the minutes that each may take. */
  runs: count,
  run_minutes: count.min(1),
  schedules: count,
  domains: count,
  /** The entries of the audit log that are kept. */
  audit_entries: count,
  webhooks: count,
  /** Databases, the sum of their connection limits, and snapshots. */
  databases: count,
  database_connections: count,
  snapshots: count,
  /** The requests of the dashboard, which are counted apart from requests with keys. */
  session_requests_per_hour: count.min(1),
  /** The sessions of each user; beyond them, the oldest one ends. */
  sessions: count.min(1),
})

export type AccountLimits = z.output<typeof account>

/** A plan as the operator writes it. Sizes are in 10⁶ (`_mb`) and 10⁹ (`_gb`) bytes. */
const givenPlan = z.strictObject({
  /** Accounts of these tiers may choose the plan for projects and databases. */
  tiers: z.array(z.enum(tiers)),
  memory_mb: count.min(64),
  cpus: z.number().positive(),
  /** The most instances of one app, over all its process types; each has the limits above. */
  instances: count.min(1).default(1),
  /** The most that one app has on the disk: its release, its own folders and its volumes. */
  app_gb: z.number().positive().max(1_000_000).optional(),
  domains: count.default(10),
  apps: count,
  databases: count,
  database_gb: z.number().positive(),
  /** The connections of one database; derived from its size unless given. */
  database_connections: count.min(1).optional(),
  /** The size of all files of a project, and of a single file. */
  storage_gb: z.number().positive(),
  file_mb: z.number().positive(),
  /** The limit of an account whose tier has the name of this plan, unless the account has a different limit. */
  requests_per_hour: count.min(1).optional(),
  /** The limits of such an account. A missing limit comes from the shipped plan of this name. */
  account: account.partial().optional(),
})

type GivenPlan = z.output<typeof givenPlan>

export type Plan = GivenPlan & { readonly app_gb: number }

/** The plans by name. Each tier has a plan of the same name. */
export type Plans = Readonly<Record<string, Plan>>

export const plansFile = z
  .record(z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be a lower-case slug'), givenPlan)
  .superRefine((given, context) => {
    for (const tier of tiers) {
      if (given[tier]?.requests_per_hour === undefined) {
        context.addIssue({ code: 'custom', path: [tier], message: 'must be there, with requests_per_hour' })
      }
    }
  })

const shippedAccountLimits: Readonly<Record<Tier, AccountLimits>> = {
  free: {
    projects: 20,
    apps: 25,
    building: 10,
    deployments_per_hour: 100,
    storage_gb: 10,
    uploads: 20,
    sources: 50,
    sources_gb: 2,
    api_keys: 100,
    webhook_tests_per_hour: 60,
    deliveries: 100_000,
    log_followers: 20,
    runs: 5,
    run_minutes: 60,
    schedules: 20,
    domains: 25,
    audit_entries: 100_000,
    webhooks: 100,
    databases: 10,
    database_connections: 100,
    snapshots: 20,
    session_requests_per_hour: 20_000,
    sessions: 50,
  },
  pro: {
    projects: 200,
    apps: 500,
    building: 50,
    deployments_per_hour: 1_000,
    storage_gb: 500,
    uploads: 100,
    sources: 500,
    sources_gb: 50,
    api_keys: 500,
    webhook_tests_per_hour: 600,
    deliveries: 1_000_000,
    log_followers: 100,
    runs: 50,
    run_minutes: 720,
    schedules: 500,
    domains: 1_000,
    audit_entries: 1_000_000,
    webhooks: 100,
    databases: 100,
    database_connections: 1_000,
    snapshots: 300,
    session_requests_per_hour: 50_000,
    sessions: 50,
  },
  enterprise: {
    projects: 2_000,
    apps: 5_000,
    building: 500,
    deployments_per_hour: 10_000,
    storage_gb: 10_000,
    uploads: 1_000,
    sources: 5_000,
    sources_gb: 1_000,
    api_keys: 5_000,
    webhook_tests_per_hour: 6_000,
    deliveries: 10_000_000,
    log_followers: 1_000,
    runs: 500,
    run_minutes: 1_440,
    schedules: 5_000,
    domains: 10_000,
    audit_entries: 10_000_000,
    webhooks: 100,
    databases: 1_000,
    database_connections: 10_000,
    snapshots: 3_000,
    session_requests_per_hour: 200_000,
    sessions: 50,
  },
}

export const shippedPlans = {
  free: {
    tiers: ['free', 'pro', 'enterprise'],
    memory_mb: 512,
    cpus: 0.5,
    instances: 1,
    app_gb: 8,
    domains: 5,
    apps: 5,
    databases: 2,
    database_gb: 1,
    storage_gb: 2,
    file_mb: 500,
    requests_per_hour: 1_000,
  },
  starter: {
    tiers: ['free', 'pro', 'enterprise'],
    memory_mb: 512,
    cpus: 1,
    instances: 2,
    app_gb: 10,
    domains: 10,
    apps: 10,
    databases: 5,
    database_gb: 5,
    storage_gb: 10,
    file_mb: 1_000,
  },
  pro: {
    tiers: ['pro', 'enterprise'],
    memory_mb: 1_000,
    cpus: 1,
    instances: 10,
    app_gb: 20,
    domains: 50,
    apps: 25,
    databases: 10,
    database_gb: 20,
    storage_gb: 100,
    file_mb: 5_000,
    requests_per_hour: 10_000,
  },
  enterprise: {
    tiers: ['enterprise'],
    memory_mb: 4_000,
    cpus: 4,
    instances: 50,
    app_gb: 100,
    domains: 200,
    apps: 100,
    databases: 50,
    database_gb: 100,
    storage_gb: 1_000,
    file_mb: 50_000,
    requests_per_hour: 100_000,
  },
} satisfies Plans

/**
 * Returns plans as they apply on this server.
 *
 * @param disk.defaultBytes the disk space of an app by a plan without `app_gb`
 * @param disk.mostBytes the largest disk space of an app by any plan; `null` for no limit
 */
export function effectivePlans(
  given: Readonly<Record<string, GivenPlan>>,
  disk: { readonly defaultBytes: number; readonly mostBytes: number | null },
): Plans {
  const most = disk.mostBytes ?? Number.POSITIVE_INFINITY
  const appGb = ({ app_gb }: GivenPlan) => Math.min(app_gb ?? disk.defaultBytes / 1e9, most / 1e9)
  return Object.fromEntries(Object.entries(given).map(([name, plan]) => [name, { ...plan, app_gb: appGb(plan) }]))
}

export function plansForTier(plans: Plans, tier: string): string[] {
  return Object.keys(plans).filter((name) => plans[name]?.tiers.some((each) => each === tier))
}

/** Returns the plan of this name, or `free` when the operator has removed that plan. */
export function planNamed(plans: Plans, name: string): Plan {
  const found = plans[name] ?? plans['free']
  if (found === undefined) throw new Error('there is no plan "free"')
  return found
}

export function requestsPerHour(plans: Plans, tier: Tier): number {
  return plans[tier]?.requests_per_hour ?? 1_000
}

export function accountLimits(plans: Plans, tier: Tier): AccountLimits {
  const given = Object.entries(plans[tier]?.account ?? {}).filter(([, most]) => most !== undefined)
  return { ...shippedAccountLimits[tier], ...Object.fromEntries(given) }
}
