import { z } from 'zod'

/** The specification's plan tiers of accounts ("Limits"). */
export const tiers = ['free', 'pro', 'enterprise'] as const
export type Tier = (typeof tiers)[number]

export function isTier(value: string): value is Tier {
  return (tiers as readonly string[]).includes(value)
}

const count = z.int().nonnegative()

/** One plan as the operator writes it; sizes in 10⁶ (`_mb`) and 10⁹ (`_gb`) bytes. */
const plan = z.strictObject({
  /** Accounts of these tiers may choose it for their projects and databases. */
  tiers: z.array(z.enum(tiers)),
  /** Of one app. */
  memory_mb: count.min(64),
  cpus: z.number().positive(),
  /** How many a project may have. */
  apps: count,
  databases: count,
  /** Of one database. */
  database_gb: z.number().positive(),
  /** Of all files of a project, and of the largest one. */
  storage_gb: z.number().positive(),
  file_mb: z.number().positive(),
  /** Of an account whose tier has this plan's name; its own limit goes before. */
  requests_per_hour: count.min(1).optional(),
  /** Webhook receivers of such an account. */
  webhooks: count.optional(),
})

export type Plan = z.output<typeof plan>

/** By name. Each tier has a plan of its name. */
export type Plans = Readonly<Record<string, Plan>>

export const plansFile = z
  .record(z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be a lower-case slug'), plan)
  .superRefine((given, context) => {
    for (const tier of tiers) {
      if (given[tier]?.requests_per_hour === undefined) {
        context.addIssue({ code: 'custom', path: [tier], message: 'must be there, with requests_per_hour' })
      }
    }
  })

export const shippedPlans: Plans = {
  free: {
    tiers: ['free', 'pro', 'enterprise'],
    memory_mb: 512,
    cpus: 0.5,
    apps: 5,
    databases: 2,
    database_gb: 1,
    storage_gb: 2,
    file_mb: 500,
    requests_per_hour: 1_000,
    webhooks: 100,
  },
  starter: {
    tiers: ['free', 'pro', 'enterprise'],
    memory_mb: 512,
    cpus: 1,
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
    apps: 25,
    databases: 10,
    database_gb: 20,
    storage_gb: 100,
    file_mb: 5_000,
    requests_per_hour: 10_000,
    webhooks: 100,
  },
  enterprise: {
    tiers: ['enterprise'],
    memory_mb: 4_000,
    cpus: 4,
    apps: 100,
    databases: 50,
    database_gb: 100,
    storage_gb: 1_000,
    file_mb: 50_000,
    requests_per_hour: 100_000,
    webhooks: 100,
  },
}

/** The plans that an account of this tier may choose. */
export function plansForTier(plans: Plans, tier: string): string[] {
  return Object.keys(plans).filter((name) => plans[name]?.tiers.some((each) => each === tier))
}

/** The plan of this name; the smallest one, when the operator has taken it away since. */
export function planNamed(plans: Plans, name: string): Plan {
  const found = plans[name] ?? plans['free']
  if (found === undefined) throw new Error('there is no plan "free"')
  return found
}

/** Requests an hour of an account of this tier. */
export function requestsPerHour(plans: Plans, tier: Tier): number {
  return plans[tier]?.requests_per_hour ?? 1_000
}

/** Webhook receivers that an account of this tier may have. */
export function webhooksOf(plans: Plans, tier: Tier): number {
  return plans[tier]?.webhooks ?? 100
}
