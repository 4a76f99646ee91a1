import { createAccounts, createOverview } from '../accounts/index.ts'
import { createTraffic } from '../apps/traffic.ts'
import { authorityDownload } from '../databases/handlers.ts'
import { countDomains } from '../domains/rows.ts'
import { createRequestTransactions } from '../platform/database/request-transactions.ts'
import { createOutbound } from '../platform/outbound.ts'
import { createSlots } from '../platform/slots.ts'
import { createProjects, createTenancy } from '../projects/index.ts'
import { countUnfinished } from '../runs/runs.ts'
import { countSchedules } from '../runs/schedules.ts'
import { createStorage } from '../storage/index.ts'
import { createWebhooks } from '../webhooks/index.ts'
import type { RequestComposition, RequestTurns, SharedParts } from './composition.ts'
import { composeDatabases, composeEngine } from './databases.ts'
import { composeDeployments } from './deployments.ts'
import { assertWritable, registerGauges } from './health.ts'
import { composeCertificates } from './requests/certificates.ts'
import { composeDomains } from './requests/domains.ts'
import { withLinks } from './requests/linked-databases.ts'
import { composeMetrics } from './requests/metrics.ts'
import { composeRuns } from './requests/runs.ts'
import { composeLogs } from './runtimes.ts'

/**
 * The number of uploads that end at the same time. Node has four file threads; one thread stays free for other
 * requests.
 */
const finishedAtOnce = 3

/**
 * Creates everything that answers requests, and mounts the API. Needs no leader in this process: requests read and
 * write rows, enqueue jobs and notify. Returns the parts that the leader's work shares with requests.
 */
export async function composeRequests(composition: RequestComposition): Promise<SharedParts> {
  const { config, state, secrets, application } = composition
  const database = state.db
  const turns: RequestTurns = {
    transact: createRequestTransactions(database),
    finishing: createSlots(finishedAtOnce),
  }
  const tenancy = createTenancy({ database })
  const { runConnections } = composition
  const shared = {
    engine: await composeEngine(composition),
    logs: composeLogs(composition),
    runConnections,
    edge: composeEdge(application),
  }
  const outbound = createOutbound(config.outbound)
  const accounts = await createAccounts({
    database,
    plans: config.plans,
    publicOrigin: composition.publicOrigin,
    workflowKeyLifeMs: config.workflowKeyLifeMs,
    auditRetentionDays: config.auditRetentionDays,
    outbound,
    metrics: composition.metrics,
    logger: composition.logger,
    findProject: tenancy.find,
    holdProject: tenancy.hold,
  })
  const { totals, tierOf } = accounts
  const webhooks = createWebhooks({
    database,
    secrets,
    outbound,
    plans: config.plans,
    retentionMs: config.webhooks.retentionMs,
    logger: composition.logger,
    tierOf,
    totals,
    findProject: tenancy.find,
    holdProject: tenancy.hold,
  })
  const storage = await createStorage({
    database,
    secrets,
    directory: state.directory,
    publicOrigin: composition.publicOrigin,
    plans: config.plans,
    reserveBytes: config.deploys.reserveBytes,
    idleTimeoutMs: config.uploadIdleTimeoutMs,
    stack: composition.stack,
    logger: composition.logger,
    transact: turns.transact,
    finishing: turns.finishing,
    totals,
    projectsOf: tenancy.projectsOf,
    holdProject: tenancy.hold,
    announce: webhooks.announce,
  })
  const databases = composeDatabases(composition, accounts, tenancy, shared)
  const deployments = await composeDeployments(composition, { ...shared, totals, tenancy, ...turns })
  const { assertApp, holdApp } = deployments
  const runs = composeRuns(composition, { connections: runConnections, totals, assertApp, holdApp })
  const domains = composeDomains(composition, totals)
  const projects = createProjects({
    database,
    regions: config.regions,
    defaultRegion: config.defaultRegion,
    plans: config.plans,
    tierOf,
    totals,
    countDeployments: deployments.count,
    countDatabases: databases.count,
    storedBytes: storage.storedBytes,
    trafficOf: createTraffic({ database }).ofProject,
  })
  const overview = createOverview({
    database,
    plans: config.plans,
    regions: config.regions,
    defaultRegion: config.defaultRegion,
    tierOf,
    totals,
    projectsOf: tenancy.projectsOf,
    projectNamesOf: tenancy.namesOf,
    appsOfProjects: deployments.appsOfProjects,
    databasesOfProjects: databases.ofProjects,
    countApps: deployments.ofAccount.countApps,
    countDatabases: databases.count,
    storedBytes: storage.storedBytes,
    countBuilding: deployments.ofAccount.countBuilding,
    countRuns: countUnfinished,
    countSchedules,
    countDomains: (on, accountId) => countDomains(on, { account_id: accountId }),
  })
  application.mount({
    database,
    transact: turns.transact,
    secrets,
    keys: accounts.keys,
    audit: accounts.audit,
    dashboard: accounts.dashboard,
    deviceLogin: accounts.deviceLogin,
    tokens: accounts.tokens,
    findProject: (principal, id) => tenancy.find(principal.accountId, id),
    holdProject: tenancy.hold,
    connectRun: runs.connect,
    downloads: storage.downloads,
    authority: authorityDownload(shared.engine.authority),
    assertWritable: () => assertWritable(state.directory.root, config.deploys.reserveBytes),
    strict: composition.strictResponses ?? false,
    handlers: {
      ...projects.handlers,
      ...domains.freeing(projects.handlers),
      ...deployments.handlers,
      ...composeMetrics(composition),
      ...runs.handlers,
      ...domains.handlers,
      ...composeCertificates(composition, tenancy),
      ...databases.handlers,
      ...withLinks(databases.handlers, deployments.links),
      ...storage.handlers,
      ...webhooks.handlers,
      ...accounts.handlers,
      ...overview.handlers,
    },
  })
  if (composition.metrics !== null) registerGauges(composition.metrics, state)
  return { ...shared, accounts, projects, storage, webhooks }
}

/** Creates the place where the leader reports the state of the edge to the requests of its process. */
function composeEdge({ edge, addProblems }: RequestComposition['application']): SharedParts['edge'] {
  let known: readonly string[] = []
  addProblems(() => known)
  return {
    listener: edge,
    setProblems(problems) {
      known = problems
    },
  }
}
