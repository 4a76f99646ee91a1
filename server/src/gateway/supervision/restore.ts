import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../control/log.ts'
import { isSameUpstream, type OpenApp, type Upstream } from '../control/protocol.ts'
import type { Connection } from './connection.ts'

const retryMs = 200

/**
 * Opens and routes the apps that should be open and that the gateway does not have so. Apps whose address is taken are
 * tried again for as long as the connection lasts; the others do not wait for them.
 */
export async function restore(connection: Connection, known: ReadonlyMap<string, OpenApp>, log: Log): Promise<void> {
  const { options, apps } = connection.welcome
  if (options.apps.mode === 'hostnames') await connection.call('listen', null)
  const found = new Map(apps.map((app) => [app.appId, app]))
  await Promise.all(
    [...known.values()].map(async (app) => {
      const has = found.get(app.appId)
      if (has !== undefined && isSame(has.upstream, app.upstream)) return
      try {
        await put(connection, app)
      } catch (error) {
        log.error({ err: error, app: app.appId, address: app.address }, 'an app cannot be opened again')
        void retry(connection, known, app)
      }
    }),
  )
}

async function put(connection: Connection, { appId, address, upstream }: OpenApp): Promise<void> {
  // One after the other, without waiting: they take effect in this order.
  const opened = connection.call('open', { appId, address })
  if (upstream === null) await opened
  else await Promise.all([opened, connection.call('route', { appId, upstream })])
}

async function retry(connection: Connection, known: ReadonlyMap<string, OpenApp>, { appId }: OpenApp): Promise<void> {
  let isOver = false
  void connection.over.then(() => {
    isOver = true
  })
  for (;;) {
    await sleep(retryMs)
    const app = known.get(appId)
    if (isOver || app === undefined) return
    const isBack = await put(connection, app).then(
      () => true,
      () => false,
    )
    if (isBack) return
  }
}

function isSame(a: Upstream | null, b: Upstream | null): boolean {
  return a === null || b === null ? a === b : isSameUpstream(a, b)
}
