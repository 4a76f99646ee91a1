import type { HandlersOf } from '../../http/call.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { LogStore } from '../../logs/log-store.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { Announce } from '../../platform/announce.ts'
import type { Config } from '../../platform/config.ts'
import type { DataDirectory } from '../../platform/data-directory.ts'
import type { BatchedRead } from '../../platform/database/batcher.ts'
import type { RequestTransactions } from '../../platform/database/request-transactions.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { assertRoom as assertRoomIn } from '../../platform/disk/free-space.ts'
import { createVolumeFolders } from '../../platform/disk/volumes.ts'
import type { Logger } from '../../platform/logger.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import type { Slots } from '../../platform/slots.ts'
import type { RuntimeNames } from '../../runtimes/names.ts'
import type { AppStore } from './app-directory.ts'
import { createAppVariables } from './app-variables.ts'
import { activityHandlers, appHandlers, createAppRequests, type DomainsOf } from './apps.ts'
import { checkSource, createAddRelease, createCreateDeployment, promotedSource } from './create.ts'
import {
  createDeploymentDetails,
  createDeploymentRequests,
  createLifecycle,
  deploymentHandlers,
} from './deployments.ts'
import type { AccountRights } from './fetch.ts'
import { gitCredentialHandlers } from './git-credentials.ts'
import { type DeploymentsLeaderParts, type DeploymentsWork, leadDeployments } from './lead.ts'
import { createLinkRequests, createSourcesOf, type LinkRequests, linkHandlers, type ReadDatabases } from './links.ts'
import { createLogs } from './logs.ts'
import { createAnnounceOutcome, type UrlOf } from './outcome.ts'
import { type LatestUsage, processHandlers } from './processes.ts'
import type { ProjectReads } from './reads.ts'
import { registryHandlers } from './registries.ts'
import { createDeploymentStore } from './rows.ts'
import { createDeploymentSecrets } from './secrets.ts'
import { createSourceFiles, createUploadSource, sourceHandlers, useSource } from './uploads.ts'
import { createAdoption, createApplyVariables, createVariableRequests, variableHandlers } from './variables.ts'
import { setImageVolumes, volumeHandlers } from './volumes.ts'

/** Metrics of apps show releases, and deployments need apps: this is created before both. */
export { createReleaseReads } from './reads.ts'

export interface DeploymentsParts {
  readonly database: Database
  readonly config: Pick<Config, 'plans' | 'localMode' | 'deploys' | 'uploadIdleTimeoutMs'>
  readonly directory: Pick<DataDirectory, 'root' | 'apps' | 'sources'>
  readonly secrets: SecretBox
  readonly logger: Logger
  readonly logs: LogStore
  /** Aborts when the server stops, and when another server has replaced it. Followed logs then end. */
  readonly stopping: AbortSignal
  readonly transact: RequestTransactions
  readonly finishing: Slots<string>
  readonly totals: Pick<Totals, 'of' | 'assertRoom' | 'takeOne'>
  readonly operatorId: string
  readonly runtimes: RuntimeNames
  readonly apps: AppStore
  readonly urlOf: UrlOf
  /** Reads the latest measurement of an app's instances, which may include instances of other deployments. */
  readonly latestUsage: (on: Database | Transaction, appId: string) => Promise<LatestUsage | undefined>
  readonly findProject: (accountId: string, projectId: string, on?: Transaction) => Promise<TenantProject | undefined>
  /** Keeps the project from being deleted until the transaction ends; false when it is no longer active. */
  readonly holdProject: (transaction: Transaction, projectId: string) => Promise<boolean>
  readonly domainsOf: DomainsOf
  readonly readDatabases: ReadDatabases
  readonly announce: Announce
}

export interface Deployments {
  readonly handlers: HandlersOf<
    | 'deployments'
    | 'apps'
    | 'releases'
    | 'variables'
    | 'links'
    | 'gitCredentials'
    | 'registries'
    | 'processes'
    | 'volumes'
    | 'activity'
    | 'logs'
    | 'sources'
  >
  /** Links a database to an app, which gets the connection string as a variable. */
  readonly linkDatabase: LinkRequests['create']
  readonly count: BatchedRead<string, number>
  readonly countApps: ProjectReads['countApps']
  /** Counts the deployments of an account that wait to be built or are being built. */
  readonly countBuilding: ProjectReads['countBuilding']
  lead(leader: DeploymentsLeaderParts): DeploymentsWork
}

/** Creates the operations on deployments, which change rows and notify the leader. */
export function createDeployments(parts: DeploymentsParts): Deployments {
  const { database, config, directory, logger, logs, totals, runtimes, apps, urlOf, findProject, readDatabases } = parts
  const { plans, deploys } = config
  const store = createDeploymentStore({ database, apps })
  const secrets = createDeploymentSecrets(parts.secrets)
  const announce = createAnnounceOutcome(parts.announce)
  const rights = createAccountRights(parts)
  const assertRoom = () => assertRoomIn(directory.root, deploys.reserveBytes)

  // Apps, their variables, and the databases that give them more variables.
  const appRequests = createAppRequests({ database, store, apps, urlOf, domainsOf: parts.domainsOf })
  const { hold } = appRequests
  const appVariables = createAppVariables(parts.secrets)
  const sourcesOf = createSourcesOf(appVariables, readDatabases)
  const variables = createVariableRequests({
    database,
    apps,
    hold,
    store,
    secrets,
    appVariables,
    sourcesOf,
    findProject,
  })
  const links = createLinkRequests({ database, apps, hold, appVariables, readDatabases, releases: store.releases })

  // New releases: of sources, images and other releases, or again with the variables that the app has now.
  const allowHttpTokens = config.localMode
  const addRelease = createAddRelease({ store, secretBox: parts.secrets, sourcesOf, totals })
  const create = createCreateDeployment({
    store,
    findOrCreateApp: apps.findOrCreate,
    secrets,
    variables: { adopt: createAdoption({ store, secrets, appVariables, sourcesOf }), link: links.create },
    addRelease,
    plans,
    totals,
    assertRoom,
    urlOf,
    sources: {
      filesFor: rights.filesFor,
      allowHttpTokens,
      runtimes,
      setImageVolumes,
      promoted: (on, project, id, mayUse) => promotedSource({ store, runtimes, mayUse }, on, project, id),
      uploaded: useSource,
    },
  })
  const apply = createApplyVariables({
    store,
    plans,
    secrets,
    addRelease,
    runtimes,
    assertRoom,
    checkRepository: (accountId, source) => checkSource(source, { files: rights.filesFor(accountId), allowHttpTokens }),
    useUploaded: useSource,
    urlOf,
  })
  const upload = createUploadSource({
    database,
    transact: parts.transact,
    finishing: parts.finishing,
    files: createSourceFiles({ directory: directory.sources }),
    plans,
    totals,
    holdProject: parts.holdProject,
    assertRoom,
    mostSourceBytes: deploys.mostSourceBytes,
    idleTimeoutMs: config.uploadIdleTimeoutMs,
    logger,
  })

  // Deployments that exist, and their logs.
  const details = createDeploymentDetails({ store, apps, secrets, urlOf })
  const deployments = createDeploymentRequests({ database, store, apps, details, create, urlOf })
  const lifecycle = createLifecycle({ store, details, assertRoom, totals, announce, urlOf })
  const logRequests = createLogs({
    database,
    store,
    secrets,
    logs,
    mostFollowers: async (accountId) => (await totals.of(database, accountId)).log_followers,
    findProject,
    stopping: parts.stopping,
  })
  const folders = createVolumeFolders(directory.apps)

  return {
    handlers: {
      ...deploymentHandlers({ deployments, lifecycle, logs: logRequests }),
      ...appHandlers(appRequests, apply),
      ...variableHandlers(variables),
      ...linkHandlers(links),
      ...gitCredentialHandlers({
        database,
        secretBox: parts.secrets,
        apps,
        releases: store.releases,
        hold,
        allowHttpTokens,
      }),
      ...registryHandlers({ database, secretBox: parts.secrets }),
      ...processHandlers({ database, store, apps, plans, latestUsage: parts.latestUsage }),
      ...volumeHandlers({ database, store, apps, folders, plans }),
      ...activityHandlers({ database, store, apps }),
      ...sourceHandlers(upload),
    },
    linkDatabase: links.create,
    count: store.ofProjects.count,
    countApps: store.ofProjects.countApps,
    countBuilding: store.ofProjects.countBuilding,
    lead: (leader) =>
      leadDeployments({ config, directory, secretBox: parts.secrets, logger, logs, rights, announce, urlOf }, leader),
  }
}

/** In local mode, the operator may deploy repositories of the machine, which belongs to the operator. */
function createAccountRights({
  config,
  directory,
  operatorId,
}: Pick<DeploymentsParts, 'config' | 'directory' | 'operatorId'>): AccountRights {
  const isOwner = (accountId: string): boolean => config.localMode && accountId === operatorId
  return {
    filesFor: (accountId) => ({
      everywhere: isOwner(accountId),
      below: config.deploys.fileSources,
      dataDirectory: directory.root,
    }),
    mayUseAgent: isOwner,
  }
}
