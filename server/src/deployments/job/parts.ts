import type { App, Apps } from '../../apps/apps.ts'
import type { Listening } from '../../apps/listening.ts'
import type { BuildSlots } from '../../builds/build-slots.ts'
import type { PlanOptions } from '../../builds/plan.ts'
import type { DeploymentFailure } from '../../contract/resources/deployments.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import type { Background } from '../../platform/background.ts'
import type { DeploysConfig } from '../../platform/config.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Caches } from '../../platform/disk/caches.ts'
import type { KeyedLock } from '../../platform/keyed-lock.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Outbound } from '../../platform/outbound.ts'
import type { Runner } from '../../runtimes/runtime.ts'
import type { Git } from '../../sources/git.ts'
import type { GitCache } from '../../sources/git-cache.ts'
import type { Work } from '../state/lock.ts'
import type { Releases } from '../state/releases.ts'
import type { DeploymentRow, DeploymentStore } from '../state/store.ts'
import type { Disk } from './disk.ts'

/** Everything that the life of a deployment needs, handed in once by the composition root. */
export interface DeployParts {
  readonly database: Database
  readonly store: DeploymentStore
  readonly apps: Apps
  readonly releases: Releases
  readonly runner: Runner
  readonly gateway: Gateway
  readonly listening: Listening
  readonly git: Git
  readonly gitCache: GitCache
  readonly caches: Caches
  readonly outbound: Outbound
  /** One at a time works on a release. */
  readonly work: Work
  /** One change of an app's route at a time; taken after `work`, never before it. */
  readonly appLock: KeyedLock
  readonly background: Background
  readonly buildSlots: BuildSlots
  readonly disk: Disk
  readonly settings: DeploysConfig
  readonly planOptions: Pick<PlanOptions, 'nodeVersion'>
  readonly allowFile: boolean
  /** Where the gateway is asked for an app, to confirm a switch. */
  readonly listenerOf: (app: App) => { host: string; port: number }
  readonly urlOf: (app: Pick<App, 'address'>) => string
  /** Writes the event and its deliveries in the transaction of the change. */
  readonly announce: (transaction: Transaction, announcement: Announcement) => Promise<void>
  readonly logger: Logger
}

/** What became of a deployment. */
export type Announcement = {
  readonly row: Pick<DeploymentRow, 'id' | 'project_id' | 'account_id'>
  readonly url: string
} & (
  | { readonly event: 'deployment.succeeded' | 'deployment.canceled' }
  | { readonly event: 'deployment.failed'; readonly failure: DeploymentFailure }
)
