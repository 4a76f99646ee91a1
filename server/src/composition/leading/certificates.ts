import { createAccountStore } from '../../accounts/accounts.ts'
import { appAt, hostnamesOf } from '../../apps/addresses.ts'
import { type Acme, createAcme } from '../../certificates/acme/acme.ts'
import { createDns01, createDnsUpdates, type Dns01 } from '../../certificates/acme/dns-01.ts'
import { challengeFolder, createAskEdge, createHttp01 } from '../../certificates/acme/http-01.ts'
import { forgetCertificates } from '../../certificates/history.ts'
import { limitsOf } from '../../certificates/renewal.ts'
import type { ServedName } from '../../certificates/selection.ts'
import type { SomeApps } from '../../certificates/serving.ts'
import { certificatesChannel } from '../../certificates/tables.ts'
import { type CertificateWork, startCertificateWork } from '../../certificates/worker.ts'
import { servedDomains } from '../../domains/rows.ts'
import { domainsChannel } from '../../domains/tables.ts'
import type { EdgeGateway } from '../../gateway/edge-client.ts'
import { createBackground } from '../../platform/background.ts'
import type { EdgeConfig } from '../../platform/config/edge.ts'
import type { Config } from '../../platform/config.ts'
import { listen } from '../../platform/database/notifications.ts'
import { createResolver } from '../../platform/dns/resolver.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { State } from '../../platform/state.ts'
import type { Tenancy } from '../../projects/tenancy.ts'
import { announce } from '../../webhooks/outbox.ts'
import type { Composition } from '../composition.ts'

/** The time between attempts to remove leftover DNS records. */
const leftoversEveryMs = 60 * 60_000
const settleMs = 5_000

/** The parts of a server that the work on certificates needs. */
export interface CertificateComposition extends Pick<Composition, 'secrets' | 'stack' | 'logger'> {
  readonly config: Pick<Config, 'edge' | 'path'>
  readonly state: Pick<State, 'db' | 'connection'>
}

export interface CertificateParts {
  readonly gateway: EdgeGateway
  readonly tenancy: Pick<Tenancy, 'accountOf' | 'accountsOf'>
}

export interface CertificatesWork {
  /** Deletes what is past its retention. */
  readonly forget: () => Promise<void>
}

/**
 * Obtains and renews certificates, and passes them to the gateway. Resolves when the gateway has all existing
 * certificates. Without a domain of the server, does nothing and keeps stored certificates.
 */
export async function leadCertificates(
  composition: CertificateComposition,
  { gateway, tenancy }: CertificateParts,
): Promise<CertificatesWork> {
  const { config, state, secrets, stack, logger } = composition
  const { edge } = config
  const database = state.db
  const forget = () => forgetCertificates(database)
  await clean(gateway, edge === null ? gateway.certificates() : [], logger)
  if (edge === null) return { forget }
  const acme = await composeAcme(composition, edge, gateway)
  const work = await startCertificateWork({
    ...{ database, secrets, acme, gateway, logger, announce },
    own: { domain: edge.domain, dashboardHost: edge.dashboardHost, hasDnsUpdates: edge.dnsUpdates !== null },
    operatorId: await createAccountStore({ database }).ensureOperator(),
    servedNames: (some) => servedNames(composition, tenancy, some),
    limits: limitsOf(edge.acme.url),
  })
  stack.defer('certificates', () => work.stop())
  follow(composition, { gateway, tenancy }, work)
  return { forget }
}

/**
 * Removes leftovers of an earlier server from the gateway: answers to challenges, and certificates that are no longer
 * in use.
 */
async function clean(
  gateway: EdgeGateway,
  certificates: readonly string[],
  logger: Pick<Composition['logger'], 'warn'>,
): Promise<void> {
  const answers = gateway.answers().filter((path) => path.startsWith(challengeFolder))
  try {
    for (const path of answers) await gateway.answerAt(path, null)
    for (const name of certificates) await gateway.certify(name, null)
  } catch (error) {
    logger.warn({ err: error }, 'the gateway keeps answers or certificates of an earlier server')
  }
}

/** Returns the domains that are served, and the host names of the given apps. */
async function servedNames(
  { state }: Pick<CertificateComposition, 'state'>,
  tenancy: Pick<Tenancy, 'accountsOf'>,
  some: SomeApps,
): Promise<readonly ServedName[]> {
  const domains = await servedDomains(state.db)
  const apps = await hostnamesOf(state.db, some)
  const accounts = await tenancy.accountsOf(apps.map(({ projectId }) => projectId))
  return [
    ...domains.map(({ id, name, accountId, projectId, appId }) => ({
      name,
      accountId,
      projectId,
      appId,
      domainId: id,
    })),
    ...apps.flatMap(({ hostname: name, appId, projectId }) => {
      const accountId = accounts.get(projectId)
      return accountId === undefined ? [] : [{ name, accountId, projectId, appId, domainId: null }]
    }),
  ]
}

async function composeAcme(
  { config, state, secrets, stack, logger }: CertificateComposition,
  edge: EdgeConfig,
  { answerAt }: Pick<EdgeGateway, 'answerAt'>,
): Promise<Acme> {
  const database = state.db
  // All addresses are allowed: the names belong to the operator, or were checked before they are served.
  const resolver = createResolver({ servers: edge.dnsServers, allows: () => true })
  const dns =
    edge.dnsUpdates === null
      ? null
      : createDns01({
          ...{ database, resolver, domain: edge.domain, logger },
          updates: createDnsUpdates(edge.dnsUpdates, config.path),
        })
  const acme = await createAcme({
    ...{ database, secrets, logger },
    directory: edge.acme.url,
    email: edge.acme.email,
    ca: edge.acme.ca,
    kinds: { http: createHttp01({ answerAt, askEdge: createAskEdge(edge.httpPort), resolver, logger }), dns },
  })
  stack.defer('certificate authority', () => acme.close())
  if (dns !== null) removeLeftovers({ stack, logger }, dns)
  return acme
}

function removeLeftovers({ stack, logger }: Pick<Composition, 'stack' | 'logger'>, dns: Dns01): void {
  const { stop } = startPeriodic({
    name: 'removing records from DNS',
    everyMs: leftoversEveryMs,
    work: dns.removeLeftovers,
    logger,
  })
  stack.defer('records in DNS', stop)
}

/** Wakes the work at changes, and at visits to names without a certificate. */
function follow(
  { state, stack, logger }: Pick<CertificateComposition, 'state' | 'stack' | 'logger'>,
  { gateway, tenancy }: CertificateParts,
  work: CertificateWork,
): void {
  const listener = listen({
    connection: state.connection,
    logger,
    channels: { [certificatesChannel]: work.wake, [domainsChannel]: work.wake },
    onListening: work.wake,
  })
  stack.defer('listening for changes of certificates', () => listener.stop())
  const background = createBackground({ logger })
  const obtain = async (hostname: string): Promise<void> => {
    const app = await appAt(state.db, hostname)
    // Certificates for domains and for names of the server do not need a visit.
    if (app === undefined) return work.wake()
    const { appId, projectId } = app
    const accountId = await state.db.transaction().execute((on) => tenancy.accountOf(on, projectId))
    await work.obtain({ name: hostname, accountId, projectId, appId, domainId: null })
  }
  const unfollow = gateway.onUncertified((hostname) => background.add(obtain(hostname), { hostname }))
  stack.defer('names without a certificate', async () => {
    unfollow()
    await background.settle(settleMs)
  })
}
