import { once } from 'node:events'
import type { ClientRequest } from 'node:http'
import type { Config } from '../config.ts'
import type { Logger } from '../logger.ts'
import { request } from '../machine/http.ts'
import { createNotifier, type Notifier } from './notify.ts'
import { feedWatchdog } from './watchdog.ts'

/** Messages to the service manager that runs this server. Nothing is sent where there is none. */
export interface ServiceManager {
  readonly notifier: Notifier
  /** Reports that the server answers at this address, and keeps the watchdog quiet while it does. */
  ready(url: string): Promise<void>
  /** Shows in `systemctl status` why the start failed, and throws the error again. */
  failed(error: unknown): Promise<never>
  /**
   * Reports that the service stops, and extends the time for it again and again until the process ends: uploads may take
   * longer than the unit allows. A stop that hangs ends itself; when even that hangs, there is no extension. Does nothing
   * after `retire`, because the successor speaks for the service.
   */
  stopping(): Promise<void>
  /** Ends the signs of life without a word, for a server that another one has replaced. */
  retire(): void
}

/** A third of it must be shorter than the unit's TimeoutStopSec: then each extension arrives in time. */
const extensionMs = 60_000

/** Connects to the service manager that started this process, as its environment says. */
export function connectServiceManager(
  config: Pick<Config, 'serviceManager' | 'path'>,
  logger: Pick<Logger, 'warn' | 'error'>,
): ServiceManager {
  const { notifySocket, watchdogMs } = config.serviceManager
  const notifier = createNotifier({ socket: notifySocket, path: config.path, logger })
  const ended = new AbortController()
  return {
    notifier,
    async ready(url) {
      await notifier.ready(`Ready on ${url}`)
      if (notifySocket === undefined || watchdogMs === undefined) return
      const check = (signal: AbortSignal) => answers(url, signal)
      void feedWatchdog({ periodMs: watchdogMs, check, alive: notifier.alive, logger, signal: ended.signal })
    },
    async failed(error) {
      await notifier.status(`The start failed: ${error instanceof Error ? error.message : String(error)}`)
      throw error
    },
    async stopping() {
      if (ended.signal.aborted) return
      ended.abort()
      await notifier.stopping()
      setInterval(() => void notifier.extend(extensionMs), extensionMs / 3).unref()
    },
    retire: () => ended.abort(),
  }
}

/** Resolves when the server has answered whether it is ready, which includes a question to the database. */
async function answers(url: string, signal: AbortSignal): Promise<void> {
  // A connection of its own shows that the server also accepts.
  const asked: ClientRequest = request(`${url}/readyz`, { agent: false, signal })
  asked.end()
  const [answer] = (await once(asked, 'response', { signal })) as [NodeJS.ReadableStream]
  answer.resume()
}
