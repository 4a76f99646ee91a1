import type { CertificateFailure } from '../../contract/certificates.ts'
import type { Announce } from '../../platform/announce.ts'
import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { type Repeated, startRepeated } from '../../platform/periodic.ts'
import { announceFailed } from './announce.ts'
import { isInDanger } from './renewal.ts'
import { among, automaticCertificates, insertAutomatic, type UsableCertificate, usableCertificates } from './rows.ts'
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

interface Shown {
  readonly id: string
  /** Changes with each renewal. */
  readonly serial: string
}

export interface CertificateSyncDependencies {
  readonly look: () => Promise<ReadonlyMap<string, Shown>>
  /** Returns the private key and the chain of a certificate, as PEM; `undefined` when it is gone. */
  readonly read: (id: string) => Promise<string | undefined>
  /** Makes the gateway show a certificate for a name; null removes it. */
  readonly certify: (name: string, pem: string | null) => Promise<void>
  /** The names for which the gateway already has a certificate. */
  readonly before: readonly string[]
  readonly logger: Pick<Logger, 'error'>
}

export interface CertificateSync extends Repeated {
  isShown(id: string): boolean
}

/** The longest time between two checks: certificates also begin and end without a change of their rows. */
const lookMs = 30_000
const retryMs = 500

/** Starts the sync. Resolves when the gateway has the certificates of the database, or could not be reached. */
export async function startCertificateSync(dependencies: CertificateSyncDependencies): Promise<CertificateSync> {
  const { before, logger } = dependencies
  /** The certificates in the gateway; null when only the name is known. */
  const sent = new Map<string, Shown | null>(before.map((name) => [name, null]))
  const waitAfter = createReport(logger)
  const work = () => sendChanges(dependencies, sent).then(waitAfter)
  const onError = (error: unknown): number => {
    logger.error({ err: error }, 'the certificates could not be sent to the gateway')
    return retryMs
  }
  const repeated = startRepeated(work, onError, await work().catch(onError))
  return { ...repeated, isShown: (id) => [...sent.values()].some((each) => each?.id === id) }
}

type Failures = ReadonlyMap<string, unknown>

/**
 * Returns a function that logs each name that fails newly, and returns the time until the next check. While the
 * failures stay the same, the time grows, because a damaged certificate stays damaged.
 */
function createReport(logger: Pick<Logger, 'error'>): (failures: Failures) => number {
  let previous: Failures = new Map()
  let nextMs = retryMs
  return (failures) => {
    const added = [...failures.keys()].filter((name) => !previous.has(name))
    for (const name of added)
      logger.error({ err: failures.get(name), name }, 'the gateway cannot use the certificate of a name')
    nextMs = added.length > 0 ? retryMs : Math.min(nextMs * 2, lookMs)
    previous = failures
    return failures.size === 0 ? lookMs : nextMs
  }
}

/** Sends changes to the gateway. A failure of one name does not affect other names. */
async function sendChanges(
  { look, read, certify }: CertificateSyncDependencies,
  sent: Map<string, Shown | null>,
): Promise<Failures> {
  const current = await look()
  const failures = new Map<string, unknown>()
  const attempt = (name: string, work: () => Promise<void>): Promise<void> =>
    work().catch((error: unknown) => void failures.set(name, error))

  // Removals come first: such a certificate must not be shown any more.
  for (const name of [...sent.keys()].filter((each) => !current.has(each))) {
    await attempt(name, async () => {
      await certify(name, null)
      sent.delete(name)
    })
  }
  for (const [name, shown] of current) {
    const before = sent.get(name)
    if (before?.id === shown.id && before.serial === shown.serial) continue
    await attempt(name, async () => {
      const pem = await read(shown.id)
      // The certificate was just removed; the next check sees that.
      if (pem === undefined) return
      sent.set(name, null)
      await certify(name, pem)
      sent.set(name, shown)
    })
  }
  return failures
}

export interface SomeApps {
  readonly ids: readonly string[]
  readonly hostnames: readonly string[]
}

export interface LookDependencies {
  readonly database: Database
  readonly announce: Announce
  readonly own: OwnNames
  readonly operatorId: string
  readonly servedNames: (apps: SomeApps) => Promise<readonly ServedName[]>
}

/**
 * Returns a function that finds the certificate of each served name. It also requests missing certificates of domains
 * and of the server itself. Names of apps get their certificates at the first visit.
 */
export function createLook(dependencies: LookDependencies): () => Promise<ReadonlyMap<string, Shown>> {
  const { database, own, operatorId, servedNames } = dependencies
  return async () => {
    const now = new Date()
    const usable = await usableCertificates(database)
    const served = await servedNames({
      ids: usable.flatMap(({ appId }) => appId ?? []),
      // Uploaded certificates of other accounts are shown only for domains.
      hostnames: usable
        .filter(({ source, accountId }) => source === 'uploaded' && accountId === operatorId)
        .flatMap(({ names }) => names),
    })
    const all = [...served, ...ownNames(own, operatorId)]
    const selected = select(usable, all, operatorId, now)
    const byId = new Map(usable.map((each) => [each.id, each]))
    await obtainMissing(dependencies, { served, selected, byId, now })
    await tellOfDanger(dependencies, new Set(selected.values()), byId, now)
    return new Map([...selected].map(([name, id]) => [name, { id, serial: byId.get(id)?.serial ?? '' }]))
  }
}

interface Seen {
  readonly served: readonly ServedName[]
  readonly selected: ReadonlyMap<string, string>
  readonly byId: ReadonlyMap<string, UsableCertificate>
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
    // An uploaded certificate that expires soon is replaced without a gap, even if its owner uploads no successor.
    const isCovered = shown?.source === 'uploaded' && !isInDanger(shown, seen.now)
    if (!isCovered && !isAsked(each)) await insertAutomatic(database, each)
  }
}

type Automatic = Awaited<ReturnType<typeof automaticCertificates>>

/** Returns the state of the wildcard certificate of the server's domain; `undefined` when it was never requested. */
export function wildcardState(automatic: Automatic, { domain }: OwnNames, now: Date): WildcardState | undefined {
  const found = automatic.find(
    ({ names, app_id, domain_id }) => app_id === null && domain_id === null && names[0] === `*.${domain}`,
  )
  if (found === undefined) return undefined
  return { isValid: found.expires_at !== null && found.expires_at > now, failures: found.attempts }
}

/**
 * Returns the names that get certificates from the authority, for these apps. Names with the wildcard, or with an
 * uploaded certificate that does not expire soon, are left out.
 */
export async function obtainableNames(
  { database, own, operatorId, servedNames }: LookDependencies,
  appIds: readonly string[],
): Promise<readonly ServedName[]> {
  const now = new Date()
  const wildcard = wildcardState(await automaticCertificates(database), own, now)
  const served = await servedNames({ ids: appIds, hostnames: [] })
  const uploaded = (await usableCertificates(database, { onlyUploaded: true })).filter((each) => !isInDanger(each, now))
  const covered = select(uploaded, [...served, ...ownNames(own, operatorId)], operatorId, now)
  const all = [
    ...served.filter(({ name, domainId }) => domainId !== null || !hasWildcard(name, own, wildcard)),
    ...ownCertificates(own, wildcard, operatorId),
  ]
  return all.filter(({ name }) => !covered.has(name))
}

/**
 * Tells the owners of shown certificates that expire soon, once for each certificate: of uploaded certificates, and of
 * certificates that wait for a pause of the authority, so that none of their attempts has failed.
 */
async function tellOfDanger(
  { database, announce }: LookDependencies,
  shown: ReadonlySet<string>,
  byId: ReadonlyMap<string, UsableCertificate>,
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

const expiresSoon = ({ expiresAt }: UsableCertificate): CertificateFailure => ({
  code: 'expires_soon',
  message: `It was uploaded, and expires at ${expiresAt.toISOString()}: upload the next one.`,
})
