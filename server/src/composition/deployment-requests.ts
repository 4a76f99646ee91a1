import { createCreateDeployment } from '../deployments/owners/create.ts'
import { createDeployments } from '../deployments/owners/deployments.ts'
import { createDeploymentDetails } from '../deployments/owners/detail.ts'
import { deploymentHandlers } from '../deployments/owners/handlers.ts'
import { createLifecycle } from '../deployments/owners/lifecycle.ts'
import { createLogs } from '../deployments/owners/logs.ts'
import { createRemoveDeployment, createRemoveProject, type RemoveProject } from '../deployments/owners/remove.ts'
import type { HandlersOf } from '../http/call.ts'
import type { Composition } from './composition.ts'
import type { DeployJobParts, DeploymentCore, DeploymentServices } from './deployment-parts.ts'

/** Makes the parts of deployments that answer requests and remove what owners deleted. */
export function composeRequests(
  { config, state, secrets, stack, retiring }: Composition,
  { apps: { apps, listening, urlOf }, runtimes, logs, sources }: DeploymentServices,
  { store, secrets: deploymentSecrets, locks, announce, background }: DeploymentCore,
  { teardown, disk, removeApp }: DeployJobParts,
): { readonly handlers: HandlersOf<'deployments'>; readonly removeProject: RemoveProject } {
  const database = state.db
  const details = createDeploymentDetails({ store, apps, secrets: deploymentSecrets, urlOf })
  const removal = { closeAddress: listening.close, teardown, removeApp, logs }
  const remove = createRemoveDeployment(removal)
  const create = createCreateDeployment({
    store,
    findOrCreateApp: apps.findOrCreate,
    open: listening.open,
    secrets: { box: secrets, ofDeployments: deploymentSecrets },
    plans: config.plans,
    disk,
    urlOf,
    allowFile: config.localMode,
    runtime: runtimes.preferred.name,
  })
  return {
    handlers: deploymentHandlers({
      deployments: createDeployments({ database, store, apps, details, create, urlOf }),
      lifecycle: createLifecycle({ store, details, locks, teardown, remove, announce, urlOf, background }),
      logs: createLogs({
        database,
        store,
        secrets: deploymentSecrets,
        logs,
        stopping: AbortSignal.any([stack.signal, retiring]),
      }),
    }),
    removeProject: createRemoveProject({ ...removal, database, store, apps, locks, sources }),
  }
}
