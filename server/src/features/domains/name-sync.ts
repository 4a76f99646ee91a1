import { isDeepStrictEqual } from 'node:util'
import type { Logger } from '../../platform/logger.ts'
import { type Repeated, startRepeated } from '../../platform/periodic.ts'
import type { ServedDomain } from './rows.ts'

export interface GatewayName {
  readonly hostname: string
  /** The host that visitors are redirected to; null where the app answers. */
  readonly redirectTo: string | null
}

export interface NameSyncDependencies {
  readonly served: () => Promise<readonly ServedDomain[]>
  /** Sets the names of an app at the gateway, in place of all earlier names. */
  readonly name: (appId: string, names: readonly GatewayName[]) => Promise<void>
  /** The names that the gateway has at the beginning, by app. */
  readonly before: ReadonlyMap<string, readonly GatewayName[]>
  readonly logger: Pick<Logger, 'error'>
}

/** The longest time between two checks, in case a notification was missed. */
const lookMs = 30_000
const retryMs = 500

/**
 * Keeps the names at the gateway equal to the names in the rows. Resolves after the first pass, even if the gateway
 * could not be reached.
 */
export async function startNameSync(dependencies: NameSyncDependencies): Promise<Repeated> {
  const sync = createPass(dependencies)
  const work = () => sync().then(() => lookMs)
  const onError = (error: unknown): number => {
    dependencies.logger.error({ err: error }, 'the domains of apps could not be sent to the gateway')
    return retryMs
  }
  return startRepeated(work, onError, await work().catch(onError))
}

function createPass(dependencies: NameSyncDependencies): () => Promise<void> {
  const { served, name } = dependencies
  const sent = new Map<string, Sent>(
    [...dependencies.before].map(([appId, names]) => [appId, { names, isConfirmed: true }]),
  )

  const send = async (appId: string, names: readonly GatewayName[]): Promise<void> => {
    const before = sent.get(appId) ?? nothing
    if (before.isConfirmed && isDeepStrictEqual(before.names, names)) return
    sent.set(appId, { names: before.names, isConfirmed: false })
    await name(appId, names)
    if (names.length === 0) sent.delete(appId)
    else sent.set(appId, { names, isConfirmed: true })
  }

  return async () => {
    const wanted = namesByApp(await served())
    // A name that moves to another app is taken from the old app before the new app gets it.
    const kept = [...sent].map(([appId, { names }]) => [appId, stillWanted(names, wanted.get(appId))] as const)
    const failures = [...(await failuresOf(kept, send)), ...(await failuresOf([...wanted], send))]
    if (failures.length > 0) throw failures[0]
  }
}

/** The names of an app that the gateway has, or may have after a failed call. */
interface Sent {
  readonly names: readonly GatewayName[]
  readonly isConfirmed: boolean
}

const nothing: Sent = { names: [], isConfirmed: true }

function namesByApp(domains: readonly ServedDomain[]): ReadonlyMap<string, readonly GatewayName[]> {
  const byApp = Map.groupBy(domains, ({ appId }) => appId)
  const nameOf = ({ name: hostname, redirectTo }: ServedDomain): GatewayName => ({ hostname, redirectTo })
  return new Map([...byApp].map(([appId, own]) => [appId, own.map(nameOf)]))
}

function stillWanted(names: readonly GatewayName[], wanted: readonly GatewayName[] = []): readonly GatewayName[] {
  const hostnames = new Set(wanted.map(({ hostname }) => hostname))
  return names.filter(({ hostname }) => hostnames.has(hostname))
}

/** Sets the names of each app. A failure for one app does not affect other apps. */
async function failuresOf(
  all: readonly (readonly [appId: string, names: readonly GatewayName[]])[],
  send: (appId: string, names: readonly GatewayName[]) => Promise<void>,
): Promise<unknown[]> {
  const sent = await Promise.allSettled(all.map(([appId, names]) => send(appId, names)))
  return sent.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
}
