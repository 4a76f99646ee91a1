import { publicUrl } from '../../apps/addresses.ts'
import type { AppStore } from '../../apps/apps.ts'
import type { CertificateRules } from '../../certificates/index.ts'
import type { LookAtDns } from '../../domains/checker.ts'
import { createDomainCheck } from '../../domains/checks/check.ts'
import { createOwnAddresses } from '../../domains/checks/gather.ts'
import { agreeOnProbeText, createProbe } from '../../domains/checks/probe.ts'
import { recordsToSet } from '../../domains/checks/records.ts'
import type { DomainNames } from '../../domains/domains.ts'
import { parseDomainName, unicodeName } from '../../domains/names.ts'
import { contestsOf } from '../../domains/ownership.ts'
import type { Config } from '../../platform/config.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { createResolver } from '../../platform/dns/resolver.ts'
import { createOutbound } from '../../platform/outbound.ts'
import { createTenancy } from '../../projects/tenancy.ts'
import type { Composition } from '../composition.ts'

/** The parts that the requests and the leader's work on domains share. */
export interface DomainChecks {
  readonly look: LookAtDns
  readonly names: DomainNames
}

/** Creates the checks of domains, and the functions that parse and show names. */
export function composeDomainChecks(
  { config, state }: Pick<Composition, 'config' | 'state'>,
  { authority, challengeTargetOf }: CertificateRules,
  apps: Pick<AppStore, 'byIds' | 'ofProjects'>,
): DomainChecks {
  const database = state.db
  const { allows } = createOutbound(config.outbound)
  const resolver = createResolver({ servers: config.edge?.dnsServers ?? null, allows })
  const serverHost = ownHost(config)
  const ownAddresses = createOwnAddresses(resolver, serverHost)
  const check = createDomainCheck({
    resolver,
    allows,
    serverHost,
    probe: composeProbe({ config, state }),
    authority: (signal) => authority(database, signal),
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
      const projects = await createTenancy({ database }).projectsOf(database, account_id)
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
    names: {
      ...composeNames(config),
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
    },
  }
}

/** Creates the HTTP probe. Without an edge, another proxy answers for the names, so the check looks only at DNS. */
function composeProbe({ config, state }: Pick<Composition, 'config' | 'state'>) {
  if (config.edge === null) return null
  let agreed: Promise<string> | undefined
  const text = () => {
    agreed ??= agreeOnProbeText(state.db).catch((error: unknown) => {
      agreed = undefined
      throw error
    })
    return agreed
  }
  // A router may forward port 80 to another port of this machine.
  return createProbe({ text, ports: [...new Set([config.edge.httpPort, 80])] })
}

/** Returns a host name of this server that resolves to its addresses. */
function ownHost({ apps, edge }: Config): string {
  if (edge !== null) return edge.dashboardHost
  return apps.mode === 'hostnames' ? `fairlead.${apps.domain}` : 'localhost'
}

function composeNames({ apps, edge }: Config): Omit<DomainNames, 'recordsOf'> {
  const own = {
    domain: apps.mode === 'hostnames' ? apps.domain : null,
    dashboardHost: edge?.dashboardHost ?? null,
  }
  return {
    refusal:
      apps.mode === 'hostnames'
        ? null
        : 'Domains need a server with a domain of its own: its operator sets FAIRLEAD_DOMAIN and FAIRLEAD_ACME_EMAIL, or ' +
          'FAIRLEAD_APPS_DOMAIN behind another proxy.',
    parse: (text) => parseDomainName(text, own),
    unicodeOf: unicodeName,
    urlOf: (hostname) => publicUrl({ hostname }, apps),
  }
}
