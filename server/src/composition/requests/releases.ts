import { createLinkedDatabases } from '../../databases/index.ts'
import { createAppVariables } from '../../deployments/app-variables.ts'
import { appHandlers, createAppRequests } from '../../deployments/apps.ts'
import {
  type CreateDeployment,
  checkSource,
  createAddRelease,
  createCreateDeployment,
  promotedSource,
} from '../../deployments/create.ts'
import { createLinkRequests, createSourcesOf, type LinkRequests, linkHandlers } from '../../deployments/links.ts'
import type { DeploymentStore } from '../../deployments/rows.ts'
import type { DeploymentSecrets } from '../../deployments/secrets.ts'
import { useSource } from '../../deployments/uploads.ts'
import { createAdoption, createApplyVariables, createVariableRequests } from '../../deployments/variables.ts'
import { setImageVolumes } from '../../deployments/volumes.ts'
import type { Domains } from '../../domains/index.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { Database } from '../../platform/database.ts'
import type { Tenancy } from '../../projects/tenancy.ts'
import { runtimeNames } from '../../runtimes/names.ts'
import type { Composition } from '../composition.ts'
import type { DeploymentApps } from '../deployment-parts.ts'
import type { AccountRights } from '../sources.ts'
import { composeGitCredentials } from './git-credentials.ts'

/** The link operation that the databases feature needs. */
export type DatabaseLinks = Pick<LinkRequests, 'create'>

export interface ReleaseRequests {
  readonly create: CreateDeployment
  readonly handlers: HandlersOf<'apps' | 'releases' | 'variables' | 'links' | 'gitCredentials'>
  readonly links: DatabaseLinks
}

/** Creates the operations that read apps, change their variables, and create releases. */
export function composeReleases(
  composition: Pick<Composition, 'config' | 'secrets' | 'moreRuntimes' | 'preferredRuntime'>,
  { apps, urlOf }: DeploymentApps,
  store: DeploymentStore,
  given: {
    readonly database: Database
    readonly secrets: DeploymentSecrets
    readonly totals: Totals
    readonly findProject: Tenancy['find']
    readonly rights: AccountRights
    readonly assertRoom: () => Promise<void>
    readonly domainsOf: Domains['namesOf']
  },
): ReleaseRequests {
  const { config, secrets: secretBox } = composition
  const runtimes = runtimeNames({
    docker: config.docker,
    moreRuntimes: composition.moreRuntimes,
    preferredRuntime: composition.preferredRuntime,
  })
  const { database, secrets, totals, assertRoom } = given
  const appVariables = createAppVariables(secretBox)
  const readDatabases = createLinkedDatabases(secretBox)
  const sourcesOf = createSourcesOf(appVariables, readDatabases)
  const addRelease = createAddRelease({ store, secretBox, sourcesOf, totals })
  const repositories = { filesFor: given.rights.filesFor, allowHttpTokens: config.localMode }
  const shared = { store, plans: config.plans, secrets, addRelease, assertRoom, urlOf }
  const requests = createAppRequests({ database, store, apps, urlOf, domainsOf: given.domainsOf })
  const variables = { database, apps, hold: requests.hold, store, secrets, appVariables, sourcesOf }
  const links = createLinkRequests({ ...variables, readDatabases, releases: store.releases })
  return {
    create: createCreateDeployment({
      ...shared,
      findOrCreateApp: apps.findOrCreate,
      variables: { adopt: createAdoption(variables), link: links.create },
      totals,
      sources: {
        ...repositories,
        runtimes,
        setImageVolumes,
        uploaded: useSource,
        promoted: (on, project, id, mayUse) => promotedSource({ store, runtimes, mayUse }, on, project, id),
      },
    }),
    links,
    handlers: {
      ...linkHandlers(links),
      ...composeGitCredentials({ database, secretBox, store, apps, ...repositories }, requests.hold),
      ...appHandlers(
        requests,
        createVariableRequests({ ...variables, findProject: given.findProject }),
        createApplyVariables({
          ...shared,
          checkRepository: (accountId, source) =>
            checkSource(source, { ...repositories, files: repositories.filesFor(accountId) }),
          runtimes,
          useUploaded: useSource,
        }),
      ),
    },
  }
}
