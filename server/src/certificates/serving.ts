import type { CertificateFailure } from '../contract/certificates.ts'
import type { Database } from '../platform/database.ts'
import type { Logger } from '../platform/logger.ts'
import { type Repeated, startRepeated } from '../platform/periodic.ts'
import { type Announce, announceFailed } from './announce.ts'
import { isInDanger } from './renewal.ts'
import { among, automaticCertificates, insertAutomatic, type KnownCertificate, knownCertificates } from './rows.ts'
import {
  hasWildcard,
  type OwnNames,
  ownCertificates,
  ownNames,
  type ServedName,
  select,
  type WildcardState,
} from './selection.ts'
import { tablesOf } from './tables.ts'

/** A certificate as the gateway is to show it. */
interface Shown {
  readonly id: string
  /** Another one after each renewal. */
  readonly serial: string
}

export interface CertificateSyncDependencies {
  /** Returns the certificate of each name. */
  readonly look: () => Promise<ReadonlyMap<string, Shown>>
  /** Returns the private key and the chain of a certificate, as PEM; `undefined` for one that is gone. */
  readonly read: (id: string) => Promise<string | undefined>
  /** Lets the gateway show a certificate for a name; null takes it away. */
  readonly certify: (name: string, pem: string | null) => Promise<void>
  /** The names of which the gateway has a certificate from before. */
  readonly before: readonly string[]
  readonly logger: Pick<Logger, 'error'>
}

/** Lets the gateway show the certificates that the rows say. */
export interface CertificateSync extends Repeated {
  /** True while the gateway shows a certificate for any name. */
  isShown(id: string): boolean
}

/** The longest time between two looks: certificates also begin and end without a change of their rows. */
const lookMs = 30_000
/** The time until the next look after one that could not be done, or after which a name has failed for the first time. */
const retryMs = 500

/** Begins to sync. Resolves when the gateway has what the rows said at the beginning, or could not be told. */
export async function startCertificateSync(dependencies: CertificateSyncDependencies): Promise<CertificateSync> {
  const { before, logger } = dependencies
  /** The certificates that the gateway has; null for one of which only the name is known. */
  const told = new Map<string, Shown | null>(before.map((name) => [name, null]))
  const waitAfter = createReport(logger)
  const work = () => tell(dependencies, told).then(waitAfter)
  const onError = (error: unknown): number => {
    logger.error({ err: error }, 'the gateway could not be told the certificates')
    return retryMs
  }
  const repeated = startRepeated(work, onError, await work().catch(onError))
  return { ...repeated, isShown: (id) => [...told.values()].some((each) => each?.id === id) }
}

/** The errors of names, by the names. */
type Failures = ReadonlyMap<string, unknown>

/**
 * Returns a function that logs the names which have failed since they were told last, once each, and returns the time until the next
 * look: the same failures make it longer and longer, because a damaged certificate stays damaged.
 */
function createReport(logger: Pick<Logger, 'error'>): (failures: Failures) => number {
  let known: Failures = new Map()
  let nextMs = retryMs
  return (failures) => {
    const added = [...failures.keys()].filter((name) => !known.has(name))
    for (const name of added)
      logger.error({ err: failures.get(name), name }, 'the certificate of a name could not be shown')
    nextMs = added.length > 0 ? retryMs : Math.min(nextMs * 2, lookMs)
    known = failures
    return failures.size === 0 ? lookMs : nextMs
  }
}

/** Tells the gateway what has changed since it was told last. A name that fails keeps no other from its certificate. */
async function tell(
  { look, read, certify }: CertificateSyncDependencies,
  told: Map<string, Shown | null>,
): Promise<Failures> {
  const current = await look()
  const failures = new Map<string, unknown>()
  const attempt = (name: string, work: () => Promise<void>): Promise<void> =>
    work().catch((error: unknown) => void failures.set(name, error))

  // A certificate that is not to be seen any more goes before all others.
  for (const name of [...told.keys()].filter((each) => !current.has(each))) {
    await attempt(name, async () => {
      await certify(name, null)
      told.delete(name)
    })
  }
  for (const [name, shown] of current) {
    const before = told.get(name)
    if (before?.id === shown.id && before.serial === shown.serial) continue
    await attempt(name, async () => {
      const pem = await read(shown.id)
      // Removed since; the next look sees that.
      if (pem === undefined) return
      told.set(name, null)
      await certify(name, pem)
      told.set(name, shown)
    })
  }
  return failures
}

/** Apps by their ids, and by their host names. */
export interface SomeApps {
  readonly ids: readonly string[]
  readonly hostnames: readonly string[]
}

export interface LookDependencies {
  readonly database: Database
  readonly announce: Announce
  readonly own: OwnNames
  /** The operator's account. */
  readonly operatorId: string
  /** Returns the names of domains, and the host names of some apps. */
  readonly servedNames: (apps: SomeApps) => Promise<readonly ServedName[]>
}

/**
 * Returns a function that finds the certificate of each name that is served. It also asks for those that are missing: of domains,
 * and of the server itself. The names of apps get theirs when they are visited for the first time.
 */
export function createLook(dependencies: LookDependencies): () => Promise<ReadonlyMap<string, Shown>> {
  const { database, own, operatorId, servedNames } = dependencies
  return async () => {
    const now = new Date()
    const known = await knownCertificates(database)
    const served = await servedNames({
      ids: known.flatMap(({ appId }) => appId ?? []),
      // Those of others are shown for domains alone.
      hostnames: known
        .filter(({ source, accountId }) => source === 'uploaded' && accountId === operatorId)
        .flatMap(({ names }) => names),
    })
    const all = [...served, ...ownNames(own, operatorId)]
    const selected = select(known, all, operatorId, now)
    const byId = new Map(known.map((each) => [each.id, each]))
    await obtainMissing(dependencies, { served, selected, byId, now })
    await tellOfDanger(dependencies, new Set(selected.values()), byId, now)
    return new Map([...selected].map(([name, id]) => [name, { id, serial: byId.get(id)?.serial ?? '' }]))
  }
}

interface Seen {
  readonly served: readonly ServedName[]
  /** The certificates of names, by their ids. */
  readonly selected: ReadonlyMap<string, string>
  readonly byId: ReadonlyMap<string, KnownCertificate>
  readonly now: Date
}

async function obtainMissing({ database, own, operatorId }: LookDependencies, seen: Seen): Promise<void> {
  const automatic = await automaticCertificates(database)
  const isAsked = among(
    automatic.map(({ names, app_id: appId, domain_id: domainId }) => ({ name: names[0] ?? '', appId, domainId })),
  )
  const needed = [
    ...ownCertificates(own, wildcardState(automatic, own, seen.now), operatorId),
    ...seen.served.filter(({ domainId }) => domainId !== null),
  ]
  for (const each of needed) {
    const shown = seen.byId.get(seen.selected.get(each.name) ?? '')
    // An uploaded one that ends soon is replaced without a gap, even if nobody brings the next one.
    const isCovered = shown?.source === 'uploaded' && !isInDanger(shown, seen.now)
    if (!isCovered && !isAsked(each)) await insertAutomatic(database, each)
  }
}

type Automatic = Awaited<ReturnType<typeof automaticCertificates>>

/** Returns the state of the wildcard of the server's own domain; `undefined` when nobody has asked for it. */
export function wildcardState(automatic: Automatic, { domain }: OwnNames, now: Date): WildcardState | undefined {
  const found = automatic.find(
    ({ names, app_id, domain_id }) => app_id === null && domain_id === null && names[0] === `*.${domain}`,
  )
  if (found === undefined) return undefined
  return { isValid: found.expires_at !== null && found.expires_at > now, failures: found.attempts }
}

/**
 * Returns the names that get certificates from the authority, for these apps. Those that the wildcard or an uploaded certificate has
 * for some time to come are not among them.
 */
export async function obtainableNames(
  { database, own, operatorId, servedNames }: LookDependencies,
  appIds: readonly string[],
): Promise<readonly ServedName[]> {
  const now = new Date()
  const wildcard = wildcardState(await automaticCertificates(database), own, now)
  const served = await servedNames({ ids: appIds, hostnames: [] })
  const uploaded = (await knownCertificates(database, { isUploaded: true })).filter((each) => !isInDanger(each, now))
  const covered = select(uploaded, [...served, ...ownNames(own, operatorId)], operatorId, now)
  const all = [
    ...served.filter(({ name, domainId }) => domainId !== null || !hasWildcard(name, own, wildcard)),
    ...ownCertificates(own, wildcard, operatorId),
  ]
  return all.filter(({ name }) => !covered.has(name))
}

/**
 * Tells the owners of certificates that are shown and end soon, once for each: of uploaded ones, and of those that wait because
 * the authority was to be left alone, so that no attempt of their own has failed.
 */
async function tellOfDanger(
  { database, announce }: LookDependencies,
  shown: ReadonlySet<string>,
  byId: ReadonlyMap<string, KnownCertificate>,
  now: Date,
): Promise<void> {
  for (const id of shown) {
    const each = byId.get(id)
    if (each === undefined || each.alerted_at !== null || !isInDanger(each, now)) continue
    const failure = each.source === 'uploaded' ? expiresSoon(each) : each.failure
    if (failure === null) continue
    await database.transaction().execute(async (transaction) => {
      const row = await tablesOf(transaction)
        .updateTable('certificates')
        .set({ alerted_at: now, failure: JSON.stringify(failure) })
        .where('id', '=', id)
        .where('alerted_at', 'is', null)
        .returningAll()
        .executeTakeFirst()
      if (row !== undefined)
        await announceFailed(announce, transaction, row, { attempts: row.attempts, failure, expiresAt: each.expiresAt })
    })
  }
}

const expiresSoon = ({ expiresAt }: KnownCertificate): CertificateFailure => ({
  code: 'expires_soon',
  message: `It was uploaded, and expires at ${expiresAt.toISOString()}: upload the next one.`,
})
