import { createDiskGuard } from '../deployments/job/disk.ts'
import { createCreateDeployment } from '../deployments/owners/create.ts'
import { createDeployments } from '../deployments/owners/deployments.ts'
import { createDeploymentDetails } from '../deployments/owners/detail.ts'
import { deploymentHandlers } from '../deployments/owners/handlers.ts'
import { createLifecycle } from '../deployments/owners/lifecycle.ts'
import { createLogs } from '../deployments/owners/logs.ts'
import type { Announce } from '../deployments/state/announce.ts'
import { createDeploymentSecrets } from '../deployments/state/secrets.ts'
import type { DeploymentStore } from '../deployments/state/store.ts'
import type { HandlersOf } from '../http/call.ts'
import type { AppsFeature } from './apps.ts'
import type { Composition, SharedParts } from './composition.ts'
import { preferredRuntime } from './runtimes.ts'

/** Makes the handlers of deployments. They read and write rows, and notify the leader of changes. */
export function composeDeploymentHandlers(
  { config, state, secrets, stack }: Composition,
  { apps, urlOf }: AppsFeature,
  store: DeploymentStore,
  given: Pick<SharedParts, 'logs'> & { readonly announce: Announce },
): HandlersOf<'deployments'> {
  const database = state.db
  const deploymentSecrets = createDeploymentSecrets(secrets)
  const details = createDeploymentDetails({ store, apps, secrets: deploymentSecrets, urlOf })
  const create = createCreateDeployment({
    store,
    findOrCreateApp: apps.findOrCreate,
    secrets: { box: secrets, ofDeployments: deploymentSecrets },
    plans: config.plans,
    disk: createDiskGuard({ directory: state.directory.root, reserveBytes: config.deploys.reserveBytes }),
    urlOf,
    allowFile: config.localMode,
    runtime: preferredRuntime,
  })
  return deploymentHandlers({
    deployments: createDeployments({ database, store, apps, details, create, urlOf }),
    lifecycle: createLifecycle({ store, details, announce: given.announce, urlOf }),
    logs: createLogs({ database, store, secrets: deploymentSecrets, logs: given.logs, stopping: stack.signal }),
  })
}
