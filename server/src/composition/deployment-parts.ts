import type { DiskGuard } from '../deployments/job/disk.ts'
import type { Fail } from '../deployments/job/fail.ts'
import type { HealthCheck } from '../deployments/job/health.ts'
import type { InstanceControl } from '../deployments/job/instances.ts'
import type { LastLines } from '../deployments/job/log-lines.ts'
import type { Routes } from '../deployments/job/routes.ts'
import type { Teardown } from '../deployments/job/teardown.ts'
import type { Announce } from '../deployments/state/announce.ts'
import type { DeploymentLocks } from '../deployments/state/lock.ts'
import type { DeploymentSecrets, ReleaseOf } from '../deployments/state/secrets.ts'
import type { DeploymentStore } from '../deployments/state/store.ts'
import type { LogStore } from '../logs/log-store.ts'
import type { Background } from '../platform/background.ts'
import type { KeyedLock } from '../platform/keyed-lock.ts'
import type { Runtimes } from '../runtimes/runtimes.ts'
import type { Sources } from '../sources/sources.ts'
import type { AppsWork } from './apps.ts'

/** The parts of the leader that deployments stand on. */
export interface DeploymentServices {
  readonly apps: AppsWork
  readonly runtimes: Runtimes
  readonly logs: LogStore
  readonly sources: Sources
}

/** The parts that the leader's rooms of deployments share. */
export interface DeploymentCore {
  readonly store: DeploymentStore
  readonly secrets: DeploymentSecrets
  readonly releaseOf: ReleaseOf
  /** One job works on a deployment at a time. */
  readonly locks: DeploymentLocks
  /** One change of an app's route runs at a time; taken after a deployment's lock, never before it. */
  readonly appLock: KeyedLock
  readonly announce: Announce
  readonly background: Background
}

/** The parts of the deploy job that the reconciler uses, too. */
export interface DeployJobParts {
  readonly instances: InstanceControl
  readonly routes: Routes
  readonly disk: DiskGuard
  readonly lastLines: LastLines
  readonly checkHealth: HealthCheck
  readonly teardown: Teardown
  readonly fail: Fail
  /** Removes everything that runtimes and logs keep of an app. */
  readonly removeApp: (appId: string) => Promise<void>
}
