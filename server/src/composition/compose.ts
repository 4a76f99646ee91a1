import { createAccounts, createOverview } from '../accounts/index.ts'
import { createApps } from '../apps/index.ts'
import { createCertificates } from '../certificates/index.ts'
import { createLinkedDatabases } from '../databases/credentials.ts'
import { createDatabaseEngine, createDatabases } from '../databases/index.ts'
import { createDeployments, createReleaseReads } from '../deployments/index.ts'
import { createDomains } from '../domains/index.ts'
import { createLogStore } from '../logs/log-store.ts'
import { createRequestTransactions } from '../platform/database/request-transactions.ts'
import { createOutbound } from '../platform/outbound.ts'
import { createSlots } from '../platform/slots.ts'
import { createProjects, createTenancy } from '../projects/index.ts'
import { createRuns } from '../runs/index.ts'
import { createStorage } from '../storage/index.ts'
import { createWebhooks } from '../webhooks/index.ts'
import { runtimeNames } from '../runtimes/names.ts'
import type { RequestComposition, SharedParts } from './composition.ts'
import { assertWritable, registerGauges } from './health.ts'

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
  // Accounts take turns at both, so that no account waits for all work of another account.
  const transact = createRequestTransactions(database)
  const finishing = createSlots<string>(finishedAtOnce)
  const tenancy = createTenancy({ database })
  const apps = createApps({
    database,
    config,
    logger: composition.logger,
    releasesSince: createReleaseReads({ database }).servedSince,
  })
  const engine = await createDatabaseEngine({
    config,
    directory: state.directory,
    stack: composition.stack,
    logger: composition.logger,
    metrics: composition.metrics,
    addProblems: application.addProblems,
  })
  const shared = {
    apps,
    logs: createLogStore({ directory: state.directory.logs }),
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
    transact,
    finishing,
    totals,
    projectsOf: tenancy.projectsOf,
    holdProject: tenancy.hold,
    announce: webhooks.announce,
  })
  const certificates = createCertificates({
    database,
    config,
    secrets,
    stack: composition.stack,
    logger: composition.logger,
    metrics: composition.metrics,
    addProblems: application.addProblems,
    findProject: tenancy.find,
    holdProject: tenancy.hold,
    announce: webhooks.announce,
  })
  const domains = createDomains({
    database,
    config,
    logger: composition.logger,
    totals,
    apps: apps.store,
    urlOf: apps.urlOf,
    projectsOf: tenancy.projectsOf,
    certificateRules: certificates.rules,
    certificatesOf: certificates.ofDomains,
  })
  const deployments = createDeployments({
    database,
    config,
    directory: state.directory,
    secrets,
    logger: composition.logger,
    logs: shared.logs,
    stopping: AbortSignal.any([composition.stack.signal, composition.retiring]),
    transact,
    finishing,
    totals,
    operatorId: accounts.operatorId,
    runtimes: runtimeNames(composition),
    apps: apps.store,
    urlOf: apps.urlOf,
    latestUsage: apps.latestUsage,
    findProject: tenancy.find,
    holdProject: tenancy.hold,
    domainsOf: domains.namesOf,
    readDatabases: createLinkedDatabases(secrets),
    announce: webhooks.announce,
  })
  const databases = createDatabases({
    database,
    secrets,
    plans: config.plans,
    retentionMs: config.databases.retentionMs,
    logger: composition.logger,
    engine,
    tierOf,
    projectsOf: tenancy.projectsOf,
    linkApp: deployments.linkDatabase,
    announce: webhooks.announce,
  })
  const runs = createRuns({
    database,
    logger: composition.logger,
    connections: composition.runConnections,
    totals,
    assertApp: apps.assertApp,
    holdApp: apps.store.hold,
    announce: webhooks.announce,
  })
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
    trafficOf: apps.trafficOf,
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
    appsOfProjects: apps.store.ofProjects,
    databasesOfProjects: databases.ofProjects,
    countApps: deployments.countApps,
    countDatabases: databases.count,
    storedBytes: storage.storedBytes,
    countBuilding: deployments.countBuilding,
    countRuns: runs.countUnfinished,
    countSchedules: runs.countSchedules,
    countDomains: (on, accountId) => domains.count(on, { account_id: accountId }),
  })
  application.mount({
    database,
    transact,
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
    authority: databases.authority,
    assertWritable: () => assertWritable(state.directory.root, config.deploys.reserveBytes),
    strict: composition.strictResponses ?? false,
    handlers: {
      ...projects.handlers,
      async 'projects.delete'(call) {
        await projects.handlers['projects.delete'](call)
        await domains.removeProject(call.transaction, call.project.id)
        return undefined
      },
      ...deployments.handlers,
      ...apps.handlers,
      ...runs.handlers,
      ...domains.handlers,
      ...certificates.handlers,
      ...databases.handlers,
      ...storage.handlers,
      ...webhooks.handlers,
      ...accounts.handlers,
      ...overview.handlers,
    },
  })
  if (composition.metrics !== null) registerGauges(composition.metrics, state)
  return {
    ...shared,
    accounts,
    projects,
    databases,
    storage,
    webhooks,
    deployments,
    runs,
    certificates,
    domains,
  }
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
