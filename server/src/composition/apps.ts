import { publicUrl } from '../apps/addresses.ts'
import { type App, type Apps, createApps } from '../apps/apps.ts'
import { createListening, type Listening } from '../apps/listening.ts'
import type { Gateway } from '../gateway/client.ts'
import { isPortFree } from '../platform/ports.ts'
import type { Composition } from './composition.ts'

/** The parts of the apps feature that other composers use. */
export interface AppsFeature {
  readonly apps: Apps
  readonly urlOf: (app: Pick<App, 'address'>) => string
}

export function composeApps({ config, state }: Pick<Composition, 'config' | 'state'>): AppsFeature {
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

/** The apps feature with the leader's work: the addresses of apps at the gateway. */
export interface AppsWork extends AppsFeature {
  readonly listening: Listening
}

/** @param publish lets apps reach a port of this machine */
export function leadApps(
  composition: Composition,
  gateway: Pick<Gateway, 'open' | 'close'>,
  publish: (port: number) => Promise<void>,
): AppsWork {
  const addresses: Pick<Gateway, 'open' | 'close'> = {
    async open(appId, address) {
      await gateway.open(appId, address)
      if ('port' in address) await publish(address.port)
    },
    close: gateway.close,
  }
  return {
    ...composeApps(composition),
    listening: createListening({ gateway: addresses, logger: composition.logger }),
  }
}
