import type { Gateway } from '../gateway/client.ts'
import type { Logger } from '../platform/logger.ts'
import type { App } from './apps.ts'

/** Opens the addresses of apps at the gateway. An address that another program holds is tried again until it is free. */
export interface Listening {
  /** Never rejects for an address that is taken. */
  open(app: App): Promise<void>
  /** Tries the addresses again that were taken. */
  retry(): Promise<void>
  isOpen(appId: string): boolean
  close(appId: string): Promise<void>
}

export function createListening({
  gateway,
  logger,
}: {
  readonly gateway: Pick<Gateway, 'open' | 'close'>
  readonly logger: Logger
}): Listening {
  const taken = new Map<string, App>()

  const open = async (app: App): Promise<void> => {
    try {
      await gateway.open(app.id, app.address)
      taken.delete(app.id)
    } catch (error) {
      if (!taken.has(app.id)) {
        logger.error({ err: error, app: app.id, address: app.address }, "an app's address cannot be listened on")
      }
      taken.set(app.id, app)
    }
  }

  return {
    open,
    async retry() {
      for (const app of [...taken.values()]) await open(app)
    },
    isOpen: (appId) => !taken.has(appId),
    async close(appId) {
      taken.delete(appId)
      await gateway.close(appId)
    },
  }
}
