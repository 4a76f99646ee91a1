import type { Gateway } from '../../gateway/client.ts'
import type { Logger } from '../../platform/logger.ts'
import type { App } from './apps.ts'

/** Opens the addresses of apps at the gateway. If another program holds an address, it is retried until it is free. */
export interface Listening {
  /** Does not reject when the address is taken. */
  open(app: App): Promise<void>
  retry(): Promise<void>
  isOpen(appId: string): boolean
  close(appId: string): Promise<void>
  keepOnly(listApps: () => Promise<readonly App[]>): Promise<void>
}

export function createListening({
  gateway,
  logger,
}: {
  readonly gateway: Pick<Gateway, 'open' | 'close'>
  readonly logger: Logger
}): Listening {
  const taken = new Map<string, App>()
  /** The apps whose addresses were opened, or could not be opened. */
  const tried = new Set<string>()

  const open = async (app: App): Promise<void> => {
    tried.add(app.id)
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

  const close = async (appId: string): Promise<void> => {
    tried.delete(appId)
    taken.delete(appId)
    await gateway.close(appId)
  }

  return {
    open,
    close,
    async retry() {
      for (const app of [...taken.values()]) await open(app)
    },
    isOpen: (appId) => !taken.has(appId),
    async keepOnly(listApps) {
      // Read before the list: a new app may be open but missing in the list.
      const before = [...tried]
      const apps = await listApps()
      const kept = new Set(apps.map(({ id }) => id))
      for (const id of before) if (!kept.has(id)) await close(id)
      for (const app of apps) if (!tried.has(app.id)) await open(app)
    },
  }
}
