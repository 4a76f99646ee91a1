import { isDeepStrictEqual } from 'node:util'
import type { Logger } from '../platform/logger.ts'
import { type Repeated, startRepeated } from '../platform/periodic.ts'
import type { ServedDomain } from './rows.ts'

/** A further host name of an app at the gateway. */
export interface GatewayName {
  readonly hostname: string
  /** The host that visitors are sent to; null where the app answers. */
  readonly redirectTo: string | null
}

export interface NameSyncDependencies {
  /** Reads all names that are served. */
  readonly served: () => Promise<readonly ServedDomain[]>
  /** Tells the gateway the names of an app in place of all former ones. */
  readonly name: (appId: string, names: readonly GatewayName[]) => Promise<void>
  /** The names that the gateway has at the beginning, by the apps. */
  readonly told: ReadonlyMap<string, readonly GatewayName[]>
  readonly logger: Pick<Logger, 'error'>
}

/** The longest time between two looks, in case that a notification was missed. */
const lookMs = 30_000
const retryMs = 500

/**
 * Lets the gateway serve the names that the rows say. Resolves when it has what they said at the beginning, or could not be told.
 */
export async function startNameSync(dependencies: NameSyncDependencies): Promise<Repeated> {
  const sync = createPass(dependencies)
  const work = () => sync().then(() => lookMs)
  const onError = (error: unknown): number => {
    dependencies.logger.error({ err: error }, 'the gateway could not be told the domains of apps')
    return retryMs
  }
  return startRepeated(work, onError, await work().catch(onError))
}

/** Returns a function that tells the gateway what has changed since it was told last. */
function createPass(dependencies: NameSyncDependencies): () => Promise<void> {
  const { served, name } = dependencies
  const told = new Map<string, Told>(
    [...dependencies.told].map(([appId, names]) => [appId, { names, isConfirmed: true }]),
  )

  const tell = async (appId: string, names: readonly GatewayName[]): Promise<void> => {
    const before = told.get(appId) ?? nothing
    if (before.isConfirmed && isDeepStrictEqual(before.names, names)) return
    told.set(appId, { names: before.names, isConfirmed: false })
    await name(appId, names)
    if (names.length === 0) told.delete(appId)
    else told.set(appId, { names, isConfirmed: true })
  }

  return async () => {
    const wanted = namesByApp(await served())
    // A name that goes to another app is taken from the one before it is given to the other.
    const kept = [...told].map(([appId, { names }]) => [appId, stillWanted(names, wanted.get(appId))] as const)
    const failures = [...(await failuresOf(kept, tell)), ...(await failuresOf([...wanted], tell))]
    if (failures.length > 0) throw failures[0]
  }
}

/** The names of an app that the gateway has, or may have after a call that failed. */
interface Told {
  readonly names: readonly GatewayName[]
  readonly isConfirmed: boolean
}

const nothing: Told = { names: [], isConfirmed: true }

function namesByApp(domains: readonly ServedDomain[]): ReadonlyMap<string, readonly GatewayName[]> {
  const byApp = Map.groupBy(domains, ({ appId }) => appId)
  const nameOf = ({ name: hostname, redirectTo }: ServedDomain): GatewayName => ({ hostname, redirectTo })
  return new Map([...byApp].map(([appId, own]) => [appId, own.map(nameOf)]))
}

function stillWanted(names: readonly GatewayName[], wanted: readonly GatewayName[] = []): readonly GatewayName[] {
  const hostnames = new Set(wanted.map(({ hostname }) => hostname))
  return names.filter(({ hostname }) => hostnames.has(hostname))
}

/** Tells the names of each app. One that the gateway does not take keeps no other from its own. */
async function failuresOf(
  all: readonly (readonly [appId: string, names: readonly GatewayName[]])[],
  tell: (appId: string, names: readonly GatewayName[]) => Promise<void>,
): Promise<unknown[]> {
  const told = await Promise.allSettled(all.map(([appId, names]) => tell(appId, names)))
  return told.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
}
