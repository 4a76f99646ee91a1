import type { IdKind } from './ids.ts'
import type { Group, OperationName } from './routes.ts'

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

/** Returns the kind of resource that `:id` identifies in the path of an operation. */
export function kindOf({ name }: { readonly name: OperationName }): IdKind {
  return groupKinds[name.split('.')[0] as Group]
}

/** Returns the kind of resource that a path parameter identifies: `project` for `project_id`. */
export function paramKind(operation: { readonly name: OperationName }, param: string): IdKind {
  return param === 'id' ? kindOf(operation) : (param.slice(0, -'_id'.length) as IdKind)
}

/** Returns the names of the parameters in a path, in order. */
export function paramNames(path: string): string[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name)
}
