import type { PublicAddress } from '../../gateway/client.ts'
import type { Config } from '../../platform/config.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { createResolver } from '../../platform/dns/resolver.ts'
import { createOutbound } from '../../platform/outbound.ts'
import type { LookAtDns } from './checker.ts'
import { createDomainCheck } from './checks/check.ts'
import type { CertificateAuthority } from './checks/facts.ts'
import { createOwnAddresses, type Probe } from './checks/gather.ts'
import { agreeOnProbeText, createProbe } from './checks/probe.ts'
import { recordsToSet } from './checks/records.ts'
import type { DomainNames } from './domains.ts'
import { contestsOf } from './ownership.ts'

export interface CertificateRules {
  /** Returns null when this server obtains no certificates. */
  readonly authority: (on: Database, signal: AbortSignal) => Promise<CertificateAuthority | null>
  /** Returns the target for the `_acme-challenge` record of a wildcard; null when no record is needed. */
  readonly challengeTargetOf: (name: string) => string | null
}

export interface DomainDnsParts {
  readonly database: Database
  readonly config: Pick<Config, 'apps' | 'edge' | 'outbound'>
  readonly certificateRules: CertificateRules
  readonly apps: {
    readonly byIds: (
      on: Database | Transaction,
      ids: readonly string[],
    ) => Promise<ReadonlyMap<string, { readonly address: PublicAddress }>>
    readonly ofProjects: (projectIds: readonly string[]) => Promise<readonly { readonly id: string }[]>
  }
  readonly projectsOf: (on: Database, accountId: string) => Promise<readonly string[]>
}

export interface DomainDns {
  readonly look: LookAtDns
  readonly recordsOf: DomainNames['recordsOf']
}

export function createDomainDns(parts: DomainDnsParts): DomainDns {
  const { database, config, certificateRules, apps, projectsOf } = parts
  const { challengeTargetOf } = certificateRules
  const { allows } = createOutbound(config.outbound)
  const resolver = createResolver({ servers: config.edge?.dnsServers ?? null, allows })
  const serverHost = ownHost(config)
  const ownAddresses = createOwnAddresses(resolver, serverHost)
  const check = createDomainCheck({
    resolver,
    allows,
    serverHost,
    probe: probeOf(database, config),
    authority: (signal) => certificateRules.authority(database, signal),
  })

  const targetsOf = async (
    on: Database | Transaction,
    appIds: readonly string[],
  ): Promise<ReadonlyMap<string, string>> => {
    const found = await apps.byIds(on, appIds)
    return new Map([...found].map(([id, { address }]) => [id, 'hostname' in address ? address.hostname : '']))
  }

  return {
    async look({ id, account_id, app_id, name, status, token }, signal) {
      const projects = await projectsOf(database, account_id)
      const targets = await targetsOf(
        database,
        (await apps.ofProjects(projects)).map((app) => app.id),
      )
      const target = targets.get(app_id) ?? ''
      const contest = (await contestsOf(database, [{ id, status }])).get(id)
      const challengeTarget = challengeTargetOf(name)
      const { ok, isProven, leadsToApp, problems } = await check(
        {
          name,
          target,
          token: contest === undefined ? null : token,
          isAliasProof: contest === 'wanted',
          ofAccount: [...targets.values()],
          challengeTarget,
        },
        signal,
      )
      return { isRight: ok, isProven, leadsToApp, problems }
    },

    async recordsOf(on, domains) {
      const targets = await targetsOf(
        on,
        domains.map(({ app_id }) => app_id),
      )
      const addresses = domains.length === 0 ? [] : await ownAddresses()
      return new Map(
        domains.map(({ id, app_id, name, token }) => {
          const target = targets.get(app_id) ?? ''
          const domain = { name, target, token, isAliasProof: false, challengeTarget: challengeTargetOf(name) }
          return [id, domain.target === '' ? [] : recordsToSet(domain, addresses)]
        }),
      )
    },
  }
}

/** Creates the HTTP probe. Without an edge, another proxy answers for the names, so the check looks only at DNS. */
function probeOf(database: Database, { edge }: Pick<Config, 'edge'>): Probe | null {
  if (edge === null) return null
  let agreed: Promise<string> | undefined
  const text = () => {
    agreed ??= agreeOnProbeText(database).catch((error: unknown) => {
      agreed = undefined
      throw error
    })
    return agreed
  }
  // A router may forward port 80 to another port of this machine.
  return createProbe({ text, ports: [...new Set([edge.httpPort, 80])] })
}

function ownHost({ apps, edge }: Pick<Config, 'apps' | 'edge'>): string {
  if (edge !== null) return edge.dashboardHost
  return apps.mode === 'hostnames' ? `fairlead.${apps.domain}` : 'localhost'
}
