import type { LimitFunction } from 'p-limit'
import type { Gateway } from '../gateway/gateway.ts'
import type { Background } from '../platform/background.ts'
import type { DeploysConfig } from '../platform/config.ts'
import type { Database, Transaction } from '../platform/database.ts'
import type { KeyedLock } from '../platform/keyed-lock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Outbound } from '../platform/outbound.ts'
import type { App, Apps } from './apps.ts'
import type { Git } from './git.ts'
import type { PlanOptions } from './plan.ts'
import type { Releases } from './releases.ts'
import type { Runner } from './runner/runner.ts'
import type { DeploymentStore } from './store.ts'

/** Everything that the life of a deployment needs, handed in once by the composition root. */
export interface DeployParts {
  readonly database: Database
  readonly store: DeploymentStore
  readonly apps: Apps
  readonly releases: Releases
  readonly runner: Runner
  readonly gateway: Gateway
  readonly git: Git
  readonly outbound: Outbound
  /** One change of an app's release at a time. */
  readonly appLock: KeyedLock
  readonly background: Background
  /** Builds are heavy: only so many at a time, while fetching, starting and waiting for health go on beside them. */
  readonly buildSlots: LimitFunction
  readonly settings: DeploysConfig
  readonly planOptions: PlanOptions
  readonly allowFile: boolean
  /** Where the gateway is asked for an app, to confirm a switch. */
  readonly listenerOf: (app: App) => { host: string; port: number }
  readonly urlOf: (app: App) => string
  /** Writes the event and its deliveries in the transaction of the change. */
  readonly announceSuccess: (trx: Transaction, event: Succeeded) => Promise<void>
  readonly logger: Logger
}

export interface Succeeded {
  readonly projectId: string
  readonly deploymentId: string
  readonly url: string
}
