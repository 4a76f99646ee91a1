import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { plansFile } from '../plans.ts'
import { list, postgresUrl, range, seconds, slug, text } from './values.ts'

/** The place where the server may make control groups, `none` for nowhere: see `parseHierarchy`. */
export type CgroupPlace = 'none' | 'top' | 'delegated' | `${string}.service`

const cgroupPlace = z.custom<CgroupPlace>(
  (value) => typeof value === 'string' && /^(none|top|delegated|[\w@-][\w@.-]*\.service)$/.test(value),
  'must be none, top, delegated, or the name of a unit of systemd, such as fairlead-apps.service',
)

/** The settings of the server itself and of what it keeps. */
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
  // At most an hour: a run exchanges another token before the key expires.
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
