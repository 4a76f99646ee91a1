import type { EdgeGateway } from '../../gateway/edge-client.ts'
import type { Announce } from '../../platform/announce.ts'
import { createBackground } from '../../platform/background.ts'
import type { EdgeConfig } from '../../platform/config/edge.ts'
import type { Config } from '../../platform/config.ts'
import { listen } from '../../platform/database/notifications.ts'
import type { Transaction } from '../../platform/database.ts'
import { createResolver } from '../../platform/dns/resolver.ts'
import type { LeaderParts } from '../../platform/leadership/leader-parts.ts'
import type { Logger } from '../../platform/logger.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import type { ShutdownStack } from '../../platform/shutdown.ts'
import { type Acme, createAcme } from './acme/acme.ts'
import { createDns01, createDnsUpdates, type Dns01 } from './acme/dns-01.ts'
import { challengeFolder, createAskEdge, createHttp01 } from './acme/http-01.ts'
import { forgetCertificates } from './history.ts'
import { limitsOf } from './renewal.ts'
import type { ServedName } from './selection.ts'
import type { SomeApps } from './serving.ts'
import { certificatesChannel } from './tables.ts'
import { type CertificateWork, startCertificateWork } from './worker.ts'

const leftoversEveryMs = 60 * 60_000
const settleMs = 5_000

interface Parts {
  readonly config: Pick<Config, 'edge' | 'path'>
  readonly secrets: SecretBox
  readonly logger: Logger
  readonly announce: Announce
}

interface AppHostname {
  readonly appId: string
  readonly projectId: string
  readonly hostname: string
}

export interface CertificatesLeaderParts extends LeaderParts {
  readonly gateway: EdgeGateway
  readonly operatorId: string
  readonly accountOf: (transaction: Transaction, projectId: string) => Promise<string>
  /** Returns the accounts of the active projects among these, by project id. */
  readonly accountsOf: (projectIds: readonly string[]) => Promise<ReadonlyMap<string, string>>
  readonly servedDomains: (on: LeaderParts['database']) => Promise<
    readonly {
      readonly id: string
      readonly name: string
      readonly accountId: string
      readonly projectId: string
      readonly appId: string
    }[]
  >
  /** PostgreSQL's channel of notifications about changes of domains. */
  readonly domainsChannel: string
  readonly hostnamesOf: (some: SomeApps) => Promise<readonly AppHostname[]>
  readonly findAppAt: (hostname: string) => Promise<AppHostname | undefined>
}

export interface CertificatesWork {
  forget(): Promise<void>
}

export async function leadCertificates(parts: Parts, leader: CertificatesLeaderParts): Promise<CertificatesWork> {
  const { config, secrets, announce, logger } = parts
  const { database, gateway, operatorId, stack } = leader
  const { edge } = config
  const forget = () => forgetCertificates(database)
  await clean(gateway, edge === null ? gateway.certificates() : [], logger)
  if (edge === null) return { forget }
  const acme = await openAcme(parts, leader, edge)
  const work = await startCertificateWork({
    database,
    secrets,
    acme,
    gateway,
    logger,
    announce,
    own: { domain: edge.domain, dashboardHost: edge.dashboardHost, hasDnsUpdates: edge.dnsUpdates !== null },
    operatorId,
    servedNames: (some) => servedNames(leader, some),
    limits: limitsOf(edge.acme.url),
  })
  stack.defer('certificates', () => work.stop())
  follow(logger, leader, work)
  return { forget }
}

/** Removes answers to challenges and unused certificates that an earlier server has left in the gateway. */
async function clean(
  gateway: EdgeGateway,
  certificates: readonly string[],
  logger: Pick<Logger, 'warn'>,
): Promise<void> {
  const answers = gateway.answers().filter((path) => path.startsWith(challengeFolder))
  try {
    for (const path of answers) await gateway.answerAt(path, null)
    for (const name of certificates) await gateway.certify(name, null)
  } catch (error) {
    logger.warn({ err: error }, 'the gateway keeps answers or certificates of an earlier server')
  }
}

async function servedNames(
  {
    database,
    servedDomains,
    hostnamesOf,
    accountsOf,
  }: Pick<CertificatesLeaderParts, 'database' | 'servedDomains' | 'hostnamesOf' | 'accountsOf'>,
  some: SomeApps,
): Promise<readonly ServedName[]> {
  const domains = await servedDomains(database)
  const apps = await hostnamesOf(some)
  const accounts = await accountsOf(apps.map(({ projectId }) => projectId))
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

async function openAcme(
  { config, secrets, logger }: Omit<Parts, 'announce'>,
  { database, gateway, stack }: Pick<CertificatesLeaderParts, 'database' | 'gateway' | 'stack'>,
  edge: EdgeConfig,
): Promise<Acme> {
  const { answerAt } = gateway
  // All addresses are allowed: the names belong to the operator, or were checked before they are served.
  const resolver = createResolver({ servers: edge.dnsServers, allows: () => true })
  const dns =
    edge.dnsUpdates === null
      ? null
      : createDns01({
          database,
          resolver,
          domain: edge.domain,
          logger,
          updates: createDnsUpdates(edge.dnsUpdates, config.path),
        })
  const acme = await createAcme({
    database,
    secrets,
    logger,
    directory: edge.acme.url,
    email: edge.acme.email,
    ca: edge.acme.ca,
    kinds: { http: createHttp01({ answerAt, askEdge: createAskEdge(edge.httpPort), resolver, logger }), dns },
  })
  stack.defer('certificate authority', () => acme.close())
  if (dns !== null) removeLeftovers(stack, logger, dns)
  return acme
}

function removeLeftovers(stack: ShutdownStack, logger: Logger, dns: Dns01): void {
  const { stop } = startPeriodic({
    name: 'removing records from DNS',
    everyMs: leftoversEveryMs,
    work: dns.removeLeftovers,
    logger,
  })
  stack.defer('records in DNS', stop)
}

function follow(
  logger: Logger,
  { database, connection, stack, gateway, domainsChannel, findAppAt, accountOf }: CertificatesLeaderParts,
  work: CertificateWork,
): void {
  const listener = listen({
    connection,
    logger,
    channels: { [certificatesChannel]: work.wake, [domainsChannel]: work.wake },
    onListening: work.wake,
  })
  stack.defer('listening for changes of certificates', () => listener.stop())
  const background = createBackground({ logger })
  const obtain = async (hostname: string): Promise<void> => {
    const app = await findAppAt(hostname)
    // Certificates for domains and for names of the server do not need a visit.
    if (app === undefined) return work.wake()
    const { appId, projectId } = app
    const accountId = await database.transaction().execute((on) => accountOf(on, projectId))
    await work.obtain({ name: hostname, accountId, projectId, appId, domainId: null })
  }
  const unfollow = gateway.onUncertified((hostname) => background.add(obtain(hostname), { hostname }))
  stack.defer('names without a certificate', async () => {
    unfollow()
    await background.settle(settleMs)
  })
}
