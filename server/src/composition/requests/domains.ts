import type { AppStore } from '../../apps/apps.ts'
import type { Certificates } from '../../certificates/index.ts'
import { createRunCheck } from '../../domains/checker.ts'
import { domainHandlers } from '../../domains/domains.ts'
import { removeOfProject } from '../../domains/rows.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { Composition } from '../composition.ts'
import { composeDomainChecks } from './domain-checks.ts'

/** The parts of the domains feature that other composers use. */
export interface DomainsFeature {
  readonly handlers: HandlersOf<'domains'>
  /** Wraps the deletion of projects, so that it also frees the names of their apps at once. */
  readonly freeing: (projects: HandlersOf<'projects'>) => Pick<HandlersOf<'projects'>, 'projects.delete'>
}

export function composeDomains(
  composition: Pick<Composition, 'config' | 'state'>,
  totals: Pick<Totals, 'assertRoom'>,
  apps: AppStore,
  certificates: Pick<Certificates, 'rules' | 'ofDomains'>,
): DomainsFeature {
  const { config, state } = composition
  const database = state.db
  const { look, names } = composeDomainChecks(composition, certificates.rules, apps)
  return {
    handlers: domainHandlers({
      database,
      findApp: apps.find,
      holdApp: apps.hold,
      totals,
      plans: config.plans,
      names,
      runCheck: createRunCheck({ database, lockApp: apps.lock, look }),
      certificatesOf: certificates.ofDomains,
    }),
    freeing: (projects) => ({
      async 'projects.delete'(call) {
        await projects['projects.delete'](call)
        await removeOfProject(call.transaction, apps.lock, call.project.id)
        return undefined
      },
    }),
  }
}
