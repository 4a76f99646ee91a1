import type { EdgeGateway } from '../../gateway/edge-client.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { Config } from '../../platform/config.ts'
import { listen } from '../../platform/database/notifications.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { LeaderParts } from '../../platform/leadership/leader-parts.ts'
import type { Logger } from '../../platform/logger.ts'
import { createRunCheck, startChecker } from './checker.ts'
import { agreeOnProbeText, probePath } from './checks/probe.ts'
import { createDomainDns, type DomainDnsParts } from './dns.ts'
import { type DomainHandlerDependencies, type DomainNames, domainHandlers } from './domains.ts'
import { startNameSync } from './name-sync.ts'
import { parseDomainName, unicodeName } from './names.ts'
import { forgetHolders, holdOwnNames } from './ownership.ts'
import { countDomains, domainNamesOf, removeOfProject, servedDomains } from './rows.ts'
import { domainsChannel } from './tables.ts'

export interface DomainsParts extends Pick<DomainDnsParts, 'certificateRules' | 'projectsOf'> {
  readonly database: Database
  readonly config: Pick<Config, 'apps' | 'edge' | 'outbound' | 'plans'>
  readonly logger: Logger
  readonly totals: DomainHandlerDependencies['totals']
  readonly apps: AppsOfDomains & {
    readonly find: DomainHandlerDependencies['findApp']
    readonly hold: DomainHandlerDependencies['holdApp']
  }
  readonly urlOf: (app: { readonly address: { readonly hostname: string } }) => string
  readonly certificatesOf: DomainHandlerDependencies['certificatesOf']
}

type AppsOfDomains = DomainDnsParts['apps'] & {
  readonly lock: (transaction: Transaction, id: string) => Promise<void>
}

export interface Domains {
  readonly handlers: HandlersOf<'domains'>
  readonly channel: string
  /** Returns the served names of some apps or of all apps; for each app the primary domain first, then the oldest. */
  readonly served: typeof servedDomains
  readonly namesOf: typeof domainNamesOf
  readonly count: typeof countDomains
  /** Removes the domains of a project that is being deleted, so that their names are free at once. */
  removeProject(transaction: Transaction, projectId: string): Promise<void>
  /**
   * Passes the names of apps to the gateway, and rechecks domains regularly. Resolves when the gateway has all names,
   * or cannot be reached.
   */
  lead(leader: DomainsLeaderParts): Promise<DomainsWork>
}

export interface DomainsLeaderParts extends LeaderParts {
  readonly gateway: Pick<EdgeGateway, 'name' | 'names' | 'answerAt'>
  readonly apps: AppsOfDomains
  readonly operatorId: string
}

export interface DomainsWork {
  forget(): Promise<void>
}

export function createDomains(parts: DomainsParts): Domains {
  const { database, config, totals, apps, certificatesOf } = parts
  const { look, recordsOf } = createDomainDns(parts)
  return {
    handlers: domainHandlers({
      database,
      findApp: apps.find,
      holdApp: apps.hold,
      totals,
      plans: config.plans,
      names: namesFor(parts, recordsOf),
      runCheck: createRunCheck({ database, lockApp: apps.lock, look }),
      certificatesOf,
    }),
    channel: domainsChannel,
    served: servedDomains,
    namesOf: domainNamesOf,
    count: countDomains,
    removeProject: (transaction, projectId) => removeOfProject(transaction, apps.lock, projectId),
    lead: (leader) => lead(parts, leader),
  }
}

function namesFor(
  { config: { apps, edge }, urlOf }: Pick<DomainsParts, 'config' | 'urlOf'>,
  recordsOf: DomainNames['recordsOf'],
): DomainNames {
  const own = {
    domain: apps.mode === 'hostnames' ? apps.domain : null,
    dashboardHost: edge?.dashboardHost ?? null,
  }
  return {
    refusal:
      apps.mode === 'hostnames'
        ? null
        : 'Domains need a server that has a domain: its operator sets FAIRLEAD_DOMAIN and FAIRLEAD_ACME_EMAIL, or ' +
          'FAIRLEAD_APPS_DOMAIN behind another proxy.',
    parse: (text) => parseDomainName(text, own),
    unicodeOf: unicodeName,
    urlOf: (hostname) => urlOf({ address: { hostname } }),
    recordsOf,
  }
}

async function lead(
  { config, certificateRules, projectsOf, logger }: DomainsParts,
  { database, connection, stack, gateway, apps, operatorId }: DomainsLeaderParts,
): Promise<DomainsWork> {
  const forget = () => forgetHolders(database)
  // In ports mode, apps have no names. The rows stay for a later start in hostnames mode.
  if (config.apps.mode === 'ports') return { forget }
  const dashboardHost = config.edge === null ? [] : [config.edge.dashboardHost]
  await holdOwnNames(database, operatorId, [config.apps.domain, ...dashboardHost])
  if (config.edge !== null) await gateway.answerAt(probePath, await agreeOnProbeText(database))
  const sync = await startNameSync({
    served: () => servedDomains(database),
    name: gateway.name,
    before: new Map(gateway.names().map(({ appId, names }) => [appId, names])),
    logger,
  })
  stack.defer('names of apps', () => sync.stop())
  const { look } = createDomainDns({ database, config, certificateRules, apps, projectsOf })
  const runCheck = createRunCheck({ database, lockApp: apps.lock, look })
  const checker = startChecker({ database, runCheck, logger })
  stack.defer('checks of domains', () => checker.stop())
  const wake = () => {
    sync.wake()
    checker.wake()
  }
  const listener = listen({
    connection,
    logger,
    channels: { [domainsChannel]: wake },
    onListening: wake,
  })
  stack.defer('listening for changes of domains', () => listener.stop())
  return { forget }
}
