import { createCreateDeployment } from '../deployments/owners/create.ts'
import { createDeployments } from '../deployments/owners/deployments.ts'
import { createDeploymentDetails } from '../deployments/owners/detail.ts'
import { deploymentHandlers } from '../deployments/owners/handlers.ts'
import { createLifecycle } from '../deployments/owners/lifecycle.ts'
import { createLogs } from '../deployments/owners/logs.ts'
import { createRemoveDeployment, createRemoveProject, type RemoveProject } from '../deployments/owners/remove.ts'
import type { Announce } from '../deployments/state/announce.ts'
import { createDeploymentLocks } from '../deployments/state/lock.ts'
import { createDeploymentSecrets, createReleaseOf } from '../deployments/state/secrets.ts'
import { createDeploymentStore } from '../deployments/state/store.ts'
import type { HandlersOf } from '../http/call.ts'
import { createBackground } from '../platform/background.ts'
import { createKeyedLock } from '../platform/keyed-lock.ts'
import type { Limits } from '../runtimes/limits.ts'
import type { AppsFeature } from './apps.ts'
import { type Composition, finishTimeoutMs } from './composition.ts'
import type { DeployMachinery, DeploymentFoundation, DeploymentSurroundings } from './deployment-parts.ts'

/** Makes the parts that all rooms of deployments share. */
export function composeDeploymentState(
  { config, logger, state, secrets, stack }: Composition,
  { apps }: AppsFeature,
  given: {
    readonly limitsOf: (projectId: string) => Promise<Limits>
    readonly announce: Announce
  },
): DeploymentFoundation {
  const background = createBackground({ logger })
  stack.defer('background work', () => background.settle(config.deploys.drainMs + finishTimeoutMs))
  const deploymentSecrets = createDeploymentSecrets(secrets)
  return {
    store: createDeploymentStore({ database: state.db, apps }),
    secrets: deploymentSecrets,
    releaseOf: createReleaseOf({ secrets: deploymentSecrets, limitsOf: given.limitsOf }),
    locks: createDeploymentLocks(),
    appLock: createKeyedLock(),
    announce: given.announce,
    background,
  }
}

/** The deployments feature as requests and other features use it. */
export interface DeploymentsFeature {
  readonly handlers: HandlersOf<'deployments'>
  readonly removeProject: RemoveProject
}

export function composeDeployments(
  composition: Composition,
  surroundings: DeploymentSurroundings,
  foundation: DeploymentFoundation,
  machinery: DeployMachinery,
): DeploymentsFeature {
  const { config, state, secrets, stack } = composition
  const { apps: appsFeature, runtimes, logs, sources } = surroundings
  const { apps, listening, urlOf } = appsFeature
  const { store } = foundation
  const database = state.db
  const details = createDeploymentDetails({ store, apps, secrets: foundation.secrets, urlOf })
  const removal = { closeAddress: listening.close, teardown: machinery.teardown, removeApp: machinery.removeApp, logs }
  const create = createCreateDeployment({
    store,
    findOrCreateApp: apps.findOrCreate,
    open: listening.open,
    secrets: { box: secrets, ofDeployments: foundation.secrets },
    plans: config.plans,
    disk: machinery.disk,
    urlOf,
    allowFile: config.localMode,
    runtime: runtimes.preferred.name,
  })
  return {
    handlers: deploymentHandlers({
      deployments: createDeployments({ database, store, apps, details, create, urlOf }),
      lifecycle: createLifecycle({
        ...foundation,
        details,
        urlOf,
        teardown: machinery.teardown,
        remove: createRemoveDeployment(removal),
      }),
      logs: createLogs({ database, store, secrets: foundation.secrets, logs, stopping: stack.signal }),
    }),
    removeProject: createRemoveProject({ ...removal, database, store, apps, locks: foundation.locks, sources }),
  }
}
