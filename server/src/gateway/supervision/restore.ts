import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Known } from '../control/known.ts'
import type { Log } from '../control/log.ts'
import { isSameUpstream, type OpenApp, type Upstream } from '../control/protocol.ts'
import { type Connection, connectionLost, gatewayDismissed, gatewayTooOld } from './connection.ts'

const retryMs = 200

/** Everything that a gateway should have and have open. */
export interface Desired {
  readonly known: Known
  /** True when the port that all apps share should be open. */
  readonly isListening: boolean
}

/**
 * Opens and routes what should be open and what the gateway does not have so. An address that is taken is tried again for
 * as long as the connection lasts; nothing else waits for it. Rejects when the connection breaks.
 */
export async function restore(connection: Connection, { known, isListening }: Desired, log: Log): Promise<void> {
  const found = new Map(connection.welcome.apps.map((app) => [app.appId, app]))
  const missing = [...known.apps.values()].filter((app) => {
    const has = found.get(app.appId)
    return has === undefined || !isSame(has.upstream, app.upstream)
  })
  const puts = missing.map(({ appId }) => async () => {
    const app = known.apps.get(appId)
    if (app !== undefined) await put(connection, app)
  })
  const work = [...puts, ...edgeWork(connection, known)]
  // Last: the shared port and the edge find everything in its place.
  if (isListening) work.push(async () => void (await connection.call('listen', null)))
  await Promise.all(work.map((each) => attempt(each, log)))
}

/** Returns the calls that give the gateway its host names, certificates and answers, of which it tells no values. */
function edgeWork({ welcome, call }: Connection, { names, certificates, answers }: Known): (() => Promise<void>)[] {
  const wanted = names.all()
  const found = new Map(welcome.edge?.names.map((app) => [app.appId, app.names]))
  const changed = wanted.filter((app) => !isDeepStrictEqual(found.get(app.appId), app.names))
  const gone = [...found.keys()].filter((appId) => names.of(appId).length === 0).map((appId) => ({ appId, names: [] }))
  return [
    ...[...gone, ...changed].map((app) => () => call('name', app)),
    ...[...certificates].map(
      ([name, pem]) =>
        () =>
          pem === null ? null : call('certify', { name, pem }),
    ),
    ...[...answers].map(
      ([path, body]) =>
        () =>
          body === null ? null : call('answerAt', { path, body }),
    ),
  ].map((make) => async () => void (await make()))
}

/** Does the work, or goes on trying while the caller continues. Rejects when the connection breaks. */
async function attempt(work: () => Promise<void>, log: Log): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (isLost(error)) throw error
    if (isTooOld(error)) {
      log.error({ err: error }, 'the gateway cannot have all that it should')
      return
    }
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

function isTooOld(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === gatewayTooOld
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
