import { metricsHandlers } from '../../apps/metrics/read.ts'
import { createDeploymentStore } from '../../deployments/rows.ts'
import type { HandlersOf } from '../../http/call.ts'
import { composeApps } from '../apps.ts'
import type { Composition } from '../composition.ts'

/** Creates the operations of app metrics, which also return the releases. */
export function composeMetrics(composition: Pick<Composition, 'config' | 'state'>): HandlersOf<'metrics'> {
  const { apps } = composeApps(composition)
  const database = composition.state.db
  const { releases } = createDeploymentStore({ database, apps })
  return metricsHandlers({ database, findApp: apps.find, releasesSince: releases.servedSince })
}
