import type { CertificateFailure } from '../../contract/resources/hosts/certificates.ts'
import type { Database } from '../../platform/database.ts'
import { isInDanger } from '../renewal/due.ts'
import { among, automaticCertificates, insertAutomatic, type KnownCertificate, knownCertificates } from '../rows.ts'
import { hasWildcard, type OwnNames, ownCertificates, ownNames, type WildcardState } from '../serving/obtainable.ts'
import { type ServedName, select } from '../serving/selection.ts'
import type { Shown } from '../serving/sync.ts'
import { tablesOf } from '../tables.ts'
import { type Announce, announceFailed } from './announce.ts'

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
