import type { HandlersOf } from '../../http/call.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Announce } from '../../platform/announce.ts'
import type { Config } from '../../platform/config.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import type { ShutdownStack } from '../../platform/shutdown.ts'
import { type AuthorityFacts, createAuthorityFacts } from './acme/authority-facts.ts'
import { challengeTarget } from './acme/dns-01.ts'
import { certificateHandlers } from './certificates.ts'
import { type CertificatesLeaderParts, type CertificatesWork, leadCertificates } from './lead.ts'
import { type AskingDomain, certificatesOfDomains, createCertificateHealth, type ShownCertificate } from './status.ts'

const healthEveryMs = 30_000

export interface CertificatesParts {
  readonly database: Database
  readonly config: Pick<Config, 'edge' | 'path'>
  readonly secrets: SecretBox
  readonly stack: ShutdownStack
  readonly logger: Logger
  readonly metrics: Pick<Metrics, 'gauge'> | null
  readonly addProblems: (problems: () => readonly string[]) => void
  readonly findProject: (accountId: string, projectId: string, on: Transaction) => Promise<TenantProject | undefined>
  /** Keeps the project from being deleted until the transaction ends; false when it is no longer active. */
  readonly holdProject: (transaction: Transaction, projectId: string) => Promise<boolean>
  readonly announce: Announce
}

export interface Certificates {
  readonly handlers: HandlersOf<'certificates'>
  readonly rules: CertificateRules
  /**
   * Returns the shown certificate of each domain, or else the awaited certificate, by the ids of the domains. Empty
   * without a domain of the server, because then another proxy manages the certificates.
   */
  ofDomains(
    on: Database | Transaction,
    domains: readonly AskingDomain[],
  ): Promise<ReadonlyMap<string, ShownCertificate>>
  /**
   * Obtains and renews certificates, and passes them to the gateway. Resolves when the gateway has all existing
   * certificates. Without a domain of the server, does nothing and keeps stored certificates.
   */
  lead(leader: CertificatesLeaderParts): Promise<CertificatesWork>
}

export interface CertificateRules {
  /** Returns null when this server obtains no certificates, or the authority does not answer. */
  readonly authority: (on: Database, signal: AbortSignal) => Promise<AuthorityFacts | null>
  /** Returns the target for the `_acme-challenge` record of a wildcard; null when no record is needed. */
  readonly challengeTargetOf: (name: string) => string | null
}

export function createCertificates(parts: CertificatesParts): Certificates {
  const { database, config, secrets, findProject, holdProject } = parts
  if (config.edge !== null) followHealth(parts)
  return {
    handlers: certificateHandlers({
      database,
      secrets,
      ownsProject: async (transaction, { accountId }, id) =>
        (await findProject(accountId, id, transaction)) !== undefined && (await holdProject(transaction, id)),
    }),
    rules: createRules(config),
    ofDomains: async (on, domains) => (config.edge === null ? new Map() : certificatesOfDomains(on, domains)),
    lead: (leader) => leadCertificates(parts, leader),
  }
}

function createRules({ edge }: Pick<Config, 'edge'>): CertificateRules {
  if (edge === null) return { authority: async () => null, challengeTargetOf: () => null }
  return {
    authority: createAuthorityFacts(edge.acme),
    challengeTargetOf: (name) =>
      edge.dnsUpdates === null || !name.startsWith('*.') ? null : challengeTarget(name, edge.domain),
  }
}

function followHealth({ database, addProblems, metrics, logger, stack }: CertificatesParts): void {
  const health = createCertificateHealth(database, logger, new Date())
  addProblems(health.problems)
  metrics?.gauge({
    name: 'fairlead_certificate_days_left',
    help: 'Days until the first certificate expires, by source: automatic or uploaded.',
    label: 'source',
    read: async () => health.daysLeft(),
  })
  metrics?.gauge({
    name: 'fairlead_certificates_overdue',
    help: 'Certificates that are due for over an hour, and that the server has not tried to obtain, renew or revoke.',
    label: 'source',
    read: async () => ({ automatic: health.overdue() }),
  })
  const check = startPeriodic({ name: 'looking at certificates', everyMs: healthEveryMs, work: health.check, logger })
  stack.defer('the health of certificates', () => check.stop())
}
