import { createTraffic } from '../apps/traffic.ts'
import { forgetIdempotencyKeys } from '../http/operations/idempotency-keys.ts'
import { forgetAttempts } from '../platform/attempts.ts'
import { createOutbound } from '../platform/outbound.ts'
import { startPeriodic } from '../platform/periodic.ts'
import { createTenancy } from '../projects/tenancy.ts'
import { composeAccounts } from './accounts.ts'
import type { Composition } from './composition.ts'
import { composeDatabases } from './databases.ts'
import { composeDeployments } from './deployments.ts'
import { readiness, registerGauges } from './health.ts'
import { startJobs } from './jobs.ts'
import { composeProjects } from './projects.ts'
import { composeStorage } from './storage.ts'
import { composeWebhooks, startWebhooks } from './webhooks.ts'

const hourMs = 3_600_000

/** Makes the features, hands each what it needs of the others, and starts their jobs. */
export async function compose(composition: Composition): Promise<void> {
  const { config, logger, state, secrets, application } = composition
  const database = state.db
  const outbound = createOutbound(config.outbound)
  const tenancy = createTenancy({ database })
  const traffic = createTraffic({ database })
  const accounts = await composeAccounts(composition, tenancy)
  const storage = await composeStorage(composition, tenancy)
  const databases = await composeDatabases(composition, accounts, tenancy)
  const webhooks = composeWebhooks(composition, accounts, tenancy, outbound)
  const deployments = await composeDeployments(composition, { tenancy, traffic, outbound })
  const projects = composeProjects(composition, {
    tierOf: accounts.tierOf,
    countDeployments: deployments.count,
    countDatabases: databases.count,
    storedBytes: storage.storedBytes,
    trafficOf: traffic.ofProject,
  })

  // Before the apps, which look for their databases as soon as they start.
  await databases.start()
  await deployments.start()
  const workers = await startJobs(composition, {
    deploy: deployments.deploy,
    databaseTasks: databases.tasks,
    removers: [deployments.removeProject, databases.removeProject, storage.removeProject],
  })
  startWebhooks(composition, outbound)

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
      ...webhooks,
      ...accounts.handlers,
    },
  })
  application.setReadiness(readiness(state, workers, logger))
  registerGauges(composition.metrics, state)
  startHousekeeping(composition, [
    accounts.forget,
    traffic.forget,
    () => forgetIdempotencyKeys(database),
    () => forgetAttempts(database),
  ])
  await accounts.logSetupLink()
}

/** Removes what is too old, every hour. */
function startHousekeeping({ logger, stack }: Composition, chores: readonly (() => Promise<void>)[]): void {
  const housekeeping = startPeriodic({
    name: 'housekeeping',
    everyMs: hourMs,
    work: async () => {
      for (const chore of chores) await chore()
    },
    logger,
  })
  stack.defer('housekeeping', () => housekeeping.stop())
}
