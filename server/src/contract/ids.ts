import type { Group, OperationName } from './routes.ts'

/** Prefixes of public identifiers, followed by `_` and 26 base32 characters of a UUIDv7 (TypeID). */
export const idPrefixes = {
  account: 'acct',
  key: 'key',
  project: 'proj',
  app: 'app',
  deployment: 'dep',
  run: 'run',
  schedule: 'sched',
  source: 'src',
  registry: 'reg',
  webhook: 'wh',
  event: 'evt',
  delivery: 'dlv',
  database: 'db',
  snapshot: 'snap',
  file: 'file',
  user: 'user',
  session: 'ses',
  auditEntry: 'aud',
  trust: 'trust',
  link: 'link',
  domain: 'dom',
  certificate: 'cert',
} as const

export type IdKind = keyof typeof idPrefixes

export function isId(kind: IdKind, id: string): boolean {
  const prefix = `${idPrefixes[kind]}_`
  return id.startsWith(prefix) && /^[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(id.slice(prefix.length))
}

/** The kind of resource that `:id` identifies in the paths of each group. */
const groupKinds: Readonly<Record<Group, IdKind>> = {
  projects: 'project',
  storage: 'file',
  deployments: 'deployment',
  logs: 'deployment',
  apps: 'app',
  variables: 'app',
  links: 'link',
  gitCredentials: 'app',
  registries: 'registry',
  domains: 'domain',
  certificates: 'certificate',
  releases: 'deployment',
  processes: 'app',
  volumes: 'app',
  metrics: 'app',
  runs: 'run',
  schedules: 'schedule',
  activity: 'deployment',
  sources: 'source',
  databases: 'database',
  snapshots: 'snapshot',
  webhooks: 'webhook',
  deliveries: 'delivery',
  account: 'account',
  apiKeys: 'key',
  auditLog: 'auditEntry',
  trust: 'trust',
}

export function kindOf({ name }: { readonly name: OperationName }): IdKind {
  return groupKinds[name.split('.')[0] as Group]
}

/** Returns the kind of resource that a path parameter identifies: `project` for `project_id`. */
export function paramKind(operation: { readonly name: OperationName }, param: string): IdKind {
  return param === 'id' ? kindOf(operation) : (param.slice(0, -'_id'.length) as IdKind)
}

export function paramNames(path: string): string[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name)
}
