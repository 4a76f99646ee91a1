import { publicUrl } from '../apps/addresses.ts'
import { type App, type Apps, createApps } from '../apps/apps.ts'
import { createListening, type Listening } from '../apps/listening.ts'
import type { Gateway } from '../gateway/client.ts'
import type { Composition } from './composition.ts'

/** The apps feature, as other composers use it. */
export interface AppsFeature {
  readonly apps: Apps
  readonly listening: Listening
  readonly urlOf: (app: Pick<App, 'address'>) => string
}

export function composeApps({ config, logger, state }: Composition, gateway: Gateway): AppsFeature {
  return {
    apps: createApps({ database: state.db, gateway, config: config.apps }),
    listening: createListening({ gateway, logger }),
    urlOf: ({ address }) => publicUrl(address, config.apps),
  }
}
