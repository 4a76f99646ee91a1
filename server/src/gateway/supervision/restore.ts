import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../control/log.ts'
import { isSameUpstream, type OpenApp, type Upstream } from '../control/protocol.ts'
import { type Connection, connectionLost, gatewayDismissed } from './connection.ts'

const retryMs = 200

/** The apps and the port that a gateway should have open. */
export interface Desired {
  readonly known: ReadonlyMap<string, OpenApp>
  /** True when the port that all apps share should be open. */
  readonly isListening: boolean
}

/**
 * Opens and routes what should be open and what the gateway does not have so. An address that is taken is tried again for
 * as long as the connection lasts; nothing else waits for it. Rejects when the connection breaks.
 */
export async function restore(connection: Connection, { known, isListening }: Desired, log: Log): Promise<void> {
  const found = new Map(connection.welcome.apps.map((app) => [app.appId, app]))
  const missing = [...known.values()].filter((app) => {
    const has = found.get(app.appId)
    return has === undefined || !isSame(has.upstream, app.upstream)
  })
  const work = missing.map(({ appId }) => async () => {
    const app = known.get(appId)
    if (app !== undefined) await put(connection, app)
  })
  if (isListening) work.push(async () => void (await connection.call('listen', null)))
  await Promise.all(work.map((each) => attempt(each, log)))
}

/** Does the work, or goes on trying while the caller continues. Rejects when the connection breaks. */
async function attempt(work: () => Promise<void>, log: Log): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (isLost(error)) throw error
    log.error({ err: error }, 'the gateway cannot open an address again that it had; it is tried until it can')
    void retry(work)
  }
}

async function retry(work: () => Promise<void>): Promise<void> {
  for (;;) {
    await sleep(retryMs)
    const isOver = await work().then(() => true, isLost)
    if (isOver) return
  }
}

function isLost(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === connectionLost || code === gatewayDismissed
}

async function put(connection: Connection, { appId, address, upstream }: OpenApp): Promise<void> {
  // One after the other, without waiting: they take effect in this order.
  const opened = connection.call('open', { appId, address })
  if (upstream === null) await opened
  else await Promise.all([opened, connection.call('route', { appId, upstream })])
}

function isSame(a: Upstream | null, b: Upstream | null): boolean {
  return a === null || b === null ? a === b : isSameUpstream(a, b)
}
