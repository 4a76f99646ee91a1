import { z } from 'zod'

/** The plan tiers of accounts, as in the specification ("Limits"). */
export const tiers = ['free', 'pro', 'enterprise'] as const
export type Tier = (typeof tiers)[number]

export function isTier(value: string): value is Tier {
  return (tiers as readonly string[]).includes(value)
}

const count = z.int().nonnegative()

/** A plan as the operator writes it. Sizes are in 10⁶ (`_mb`) and 10⁹ (`_gb`) bytes. */
const plan = z.strictObject({
  /** The tiers whose accounts may choose this plan for their projects and databases. */
  tiers: z.array(z.enum(tiers)),
  /** The limits of one app. */
  memory_mb: count.min(64),
  cpus: z.number().positive(),
  /** The most apps and databases of a project. */
  apps: count,
  databases: count,
  /** The size of one database. */
  database_gb: z.number().positive(),
  /** The size of all files of a project, and of a single file. */
  storage_gb: z.number().positive(),
  file_mb: z.number().positive(),
  /** The limit of an account whose tier has the name of this plan, unless the account has a limit of its own. */
  requests_per_hour: count.min(1).optional(),
  /** The most webhook endpoints of such an account. */
  webhooks: count.optional(),
})

export type Plan = z.output<typeof plan>

/** The plans by name. Each tier has a plan of the same name. */
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

/** Returns the names of the plans that an account of this tier may choose. */
export function plansForTier(plans: Plans, tier: string): string[] {
  return Object.keys(plans).filter((name) => plans[name]?.tiers.some((each) => each === tier))
}

/** Returns the plan of this name, or `free` when the operator has removed that plan. */
export function planNamed(plans: Plans, name: string): Plan {
  const found = plans[name] ?? plans['free']
  if (found === undefined) throw new Error('there is no plan "free"')
  return found
}

/** Returns the requests an hour of an account of this tier. */
export function requestsPerHour(plans: Plans, tier: Tier): number {
  return plans[tier]?.requests_per_hour ?? 1_000
}

/** Returns how many webhook endpoints an account of this tier may have. */
export function webhooksOf(plans: Plans, tier: Tier): number {
  return plans[tier]?.webhooks ?? 100
}
