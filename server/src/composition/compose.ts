import { createTraffic } from '../apps/traffic.ts'
import { createOutbound } from '../platform/outbound.ts'
import { createTenancy } from '../projects/tenancy.ts'
import { composeAccounts } from './accounts.ts'
import type { RequestComposition, SharedParts } from './composition.ts'
import { composeDatabases, composeEngine } from './databases.ts'
import { composeDeployments } from './deployments.ts'
import { registerGauges } from './health.ts'
import { composeProjects } from './projects.ts'
import { composeLogs } from './runtimes.ts'
import { composeStorage } from './storage.ts'
import { composeWebhooks } from './webhooks.ts'

/**
 * Makes everything that answers requests, and mounts the API. It needs no leader in this process: requests read and write
 * rows, enqueue jobs and notify. Returns the parts that the work of the leader shares with them.
 */
export async function composeRequests(composition: RequestComposition): Promise<SharedParts> {
  const { config, state, secrets, application } = composition
  const database = state.db
  const tenancy = createTenancy({ database })
  const shared = { engine: await composeEngine(composition), logs: composeLogs(composition) }
  const accounts = await composeAccounts(composition, tenancy)
  const storage = await composeStorage(composition, tenancy)
  const databases = composeDatabases(composition, accounts, shared)
  const deployments = composeDeployments(composition, shared)
  const projects = composeProjects(composition, {
    tierOf: accounts.tierOf,
    countDeployments: deployments.count,
    countDatabases: databases.count,
    storedBytes: storage.storedBytes,
    trafficOf: createTraffic({ database }).ofProject,
  })
  application.mount({
    database,
    secrets,
    keys: accounts.keys,
    audit: accounts.audit,
    dashboard: accounts.dashboard,
    findProject: (principal, id) => tenancy.find(principal.accountId, id),
    holdProject: tenancy.hold,
    downloads: storage.downloads,
    strict: composition.strictResponses ?? false,
    handlers: {
      ...projects,
      ...deployments.handlers,
      ...databases.handlers,
      ...storage.handlers,
      ...composeWebhooks(composition, accounts, tenancy, createOutbound(config.outbound)),
      ...accounts.handlers,
    },
  })
  registerGauges(composition.metrics, state)
  return shared
}
