import { publicUrl } from '../apps/addresses.ts'
import { type App, type Apps, createApps } from '../apps/apps.ts'
import { createListening, type Listening } from '../apps/listening.ts'
import type { Gateway } from '../gateway/client.ts'
import { isPortFree } from '../platform/machine/port.ts'
import type { Composition } from './composition.ts'

/** The apps feature, as other composers use it. */
export interface AppsFeature {
  readonly apps: Apps
  readonly urlOf: (app: Pick<App, 'address'>) => string
}

export function composeApps({ config, state }: Composition): AppsFeature {
  return {
    apps: createApps({
      database: state.db,
      // The gateway listens on the same host.
      isPortFree: (port) => isPortFree(port, config.host),
      config: config.apps,
    }),
    urlOf: ({ address }) => publicUrl(address, config.apps),
  }
}

/** The apps feature with the leader's work: their addresses at the gateway. */
export interface AppsWork extends AppsFeature {
  readonly listening: Listening
}

export function leadApps(composition: Composition, gateway: Gateway): AppsWork {
  return { ...composeApps(composition), listening: createListening({ gateway, logger: composition.logger }) }
}
