import { z } from 'zod'
import type { DeploysSet } from './deploys.ts'
import { postgresUrl, type Range, range } from './values.ts'

export interface DatabasesConfig {
  /** An administrator of the operator's PostgreSQL; `undefined` for the embedded one. */
  readonly url: string | undefined
  readonly ports: Range
  /** How long a deleted database can be restored. */
  readonly retentionMs: number
  /** The environment with which npm reaches the package registry as elsewhere on this machine. */
  readonly registryEnvironment: Readonly<Record<string, string>>
}

export const databasesSettings = {
  FAIRLEAD_DATABASES_URL: postgresUrl
    .refine((url) => URL.canParse(url) && new URL(url).hostname !== '', 'must name the host that apps reach')
    .optional(),
  FAIRLEAD_DATABASE_PORTS: range.default({ from: 30000, to: 30999 }),
  FAIRLEAD_DATABASE_RETENTION_DAYS: z
    .string()
    .regex(/^\d{1,4}(\.\d+)?$/, 'must be a number of days below 10000')
    .transform((days) => Math.round(Number(days) * 86_400_000))
    .default(7 * 86_400_000),
}

export type DatabasesSet = z.output<z.ZodObject<typeof databasesSettings>>
type Environment = Readonly<Record<string, string | undefined>>

/** @param path the server's `PATH` */
export function databasesConfig(
  set: DatabasesSet & Pick<DeploysSet, 'FAIRLEAD_BUILD_ENV'>,
  environment: Environment,
  path: string,
): DatabasesConfig {
  return {
    url: set.FAIRLEAD_DATABASES_URL,
    ports: set.FAIRLEAD_DATABASE_PORTS,
    retentionMs: set.FAIRLEAD_DATABASE_RETENTION_DAYS,
    registryEnvironment: { ...registryEnvironment(environment), PATH: path, ...set.FAIRLEAD_BUILD_ENV },
  }
}

/** The variables that locate npm's settings, and npm's settings for the connection to a registry. */
const registryVariable =
  /^(HOME|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR)|(https?|no|all)_proxy|npm_config_((https?_)?proxy|noproxy|registry|ca|cafile|strict_ssl|userconfig|globalconfig|cache|[@/].*))$/i

function registryEnvironment(environment: Environment): Record<string, string> {
  const entries = Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return Object.fromEntries(entries.filter(([name]) => registryVariable.test(name)))
}
