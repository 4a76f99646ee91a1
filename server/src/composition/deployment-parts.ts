import type { AppStore } from '../apps/apps.ts'
import type { Apps } from '../apps/index.ts'
import type { Listening } from '../apps/listening.ts'
import type { DiskGuard } from '../deployments/disk-guard.ts'
import type { HealthCheck } from '../deployments/health.ts'
import type { InstanceControl } from '../deployments/instances.ts'
import type { DeploymentLocks } from '../deployments/lock.ts'
import type { Announce, Fail } from '../deployments/outcome.ts'
import type { Waker } from '../deployments/reconciler.ts'
import type { LastLines } from '../deployments/release-log.ts'
import type { ReplicaControl } from '../deployments/replicas.ts'
import type { Routes } from '../deployments/routes.ts'
import type { DeploymentStore } from '../deployments/rows.ts'
import type { DeploymentSecrets, ReleaseOf } from '../deployments/secrets.ts'
import type { Teardown } from '../deployments/teardown.ts'
import type { LogStore } from '../logs/log-store.ts'
import type { Background } from '../platform/background.ts'
import type { KeyedLock } from '../platform/keyed-lock.ts'
import type { Outbound } from '../platform/outbound.ts'
import type { Plan } from '../platform/plans.ts'
import type { Limits } from '../runtimes/limits.ts'
import type { Runtimes } from '../runtimes/runtimes.ts'
import type { Sources } from '../sources/sources.ts'
import type { AccountRights } from './sources.ts'

/** The parts of the apps feature that deployments need. */
export interface DeploymentApps {
  readonly apps: AppStore
  readonly urlOf: Apps['urlOf']
}

/** The parts of the leader that deployments need. */
export interface DeploymentServices {
  readonly apps: DeploymentApps & { readonly listening: Listening }
  readonly runtimes: Runtimes
  readonly logs: LogStore
  readonly sources: Sources
  readonly rights: AccountRights
  /** The addresses that the server may connect to for tenants. */
  readonly outbound: Outbound
}

/** The parts that the leader's modules for deployments share. */
export interface DeploymentCore {
  readonly store: DeploymentStore
  readonly secrets: DeploymentSecrets
  readonly releaseOf: ReleaseOf
  /** The limits of a project's plan. */
  readonly limitsOf: (projectId: string) => Promise<Limits>
  /** The most instances that the plan of a project allows for an app. */
  readonly mostInstances: (projectId: string) => Promise<number>
  /** The plans of all projects, by project id. */
  readonly plansOfAll: () => Promise<ReadonlyMap<string, Plan>>
  /** Ensures that only one job works on a deployment at a time. */
  readonly locks: DeploymentLocks
  /** Ensures that only one change of an app's route runs at a time. Always taken after the deployment lock. */
  readonly appLock: KeyedLock
  readonly announce: Announce
  readonly background: Background
  /** Wakes the reconciler. */
  readonly waker: Waker
}

/** The parts that the deploy job and the reconciler share. */
export interface DeployJobParts {
  readonly instances: InstanceControl
  readonly routes: Routes
  readonly disk: DiskGuard
  readonly lastLines: LastLines
  readonly checkHealth: HealthCheck
  readonly replicas: ReplicaControl
  readonly teardown: Teardown
  readonly fail: Fail
  /** Removes all data of an app from runtimes and logs. */
  readonly removeApp: (appId: string) => Promise<void>
}
