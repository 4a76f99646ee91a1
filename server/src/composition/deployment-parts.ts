import type { DiskGuard } from '../deployments/job/disk.ts'
import type { Fail } from '../deployments/job/fail.ts'
import type { HealthCheck } from '../deployments/job/health.ts'
import type { InstanceControl } from '../deployments/job/instances.ts'
import type { OtherInstances } from '../deployments/job/other-instances.ts'
import type { LastLines } from '../deployments/job/progress/log-lines.ts'
import type { Routes } from '../deployments/job/routes.ts'
import type { Teardown } from '../deployments/job/teardown.ts'
import type { Waker } from '../deployments/reconciler/waker.ts'
import type { Announce } from '../deployments/state/announce.ts'
import type { DeploymentLocks } from '../deployments/state/lock.ts'
import type { DeploymentSecrets, ReleaseOf } from '../deployments/state/secrets.ts'
import type { DeploymentStore } from '../deployments/state/store.ts'
import type { LogStore } from '../logs/log-store.ts'
import type { Background } from '../platform/background.ts'
import type { KeyedLock } from '../platform/keyed-lock.ts'
import type { Outbound } from '../platform/outbound.ts'
import type { Plan } from '../platform/plans.ts'
import type { Limits } from '../runtimes/limits.ts'
import type { Runtimes } from '../runtimes/runtimes.ts'
import type { Sources } from '../sources/sources.ts'
import type { AppsWork } from './apps.ts'
import type { AccountRights } from './sources.ts'

/** The parts of the leader that deployments stand on. */
export interface DeploymentServices {
  readonly apps: AppsWork
  readonly runtimes: Runtimes
  readonly logs: LogStore
  readonly sources: Sources
  readonly rights: AccountRights
  /** The addresses that it may connect to for tenants. */
  readonly outbound: Outbound
}

/** The parts that the leader's rooms of deployments share. */
export interface DeploymentCore {
  readonly store: DeploymentStore
  readonly secrets: DeploymentSecrets
  readonly releaseOf: ReleaseOf
  /** The limits of a project's plan. */
  readonly limitsOf: (projectId: string) => Promise<Limits>
  /** The most instances of an app that the plan of its project allows. */
  readonly mostInstances: (projectId: string) => Promise<number>
  /** The plans of all projects, by the ids of the projects. */
  readonly plansOfAll: () => Promise<ReadonlyMap<string, Plan>>
  /** One job works on a deployment at a time. */
  readonly locks: DeploymentLocks
  /** One change of an app's route runs at a time; taken after a deployment's lock, never before it. */
  readonly appLock: KeyedLock
  readonly announce: Announce
  readonly background: Background
  /** Woken when running releases are to be compared with their rows. */
  readonly waker: Waker
}

/** The parts of the deploy job that the reconciler uses, too. */
export interface DeployJobParts {
  readonly instances: InstanceControl
  readonly routes: Routes
  readonly disk: DiskGuard
  readonly lastLines: LastLines
  readonly checkHealth: HealthCheck
  readonly others: OtherInstances
  readonly teardown: Teardown
  readonly fail: Fail
  /** Removes everything that runtimes and logs keep of an app. */
  readonly removeApp: (appId: string) => Promise<void>
}
