import { createAccounts } from '../../accounts/accounts.ts'
import type { AppStore } from '../../apps/apps.ts'
import { createRunCheck, type LookAtDns, startChecker } from '../../domains/checker.ts'
import { agreeOnProbeText, probePath } from '../../domains/checks/probe.ts'
import { startNameSync } from '../../domains/name-sync.ts'
import { forgetHolders, holdOwnNames } from '../../domains/ownership.ts'
import { servedDomains } from '../../domains/rows.ts'
import { domainsChannel } from '../../domains/tables.ts'
import type { EdgeGateway } from '../../gateway/edge-client.ts'
import { listen } from '../../platform/database/notifications.ts'
import type { Composition } from '../composition.ts'

export interface DomainsWork {
  /** Deletes old records of the former owners of names. */
  readonly forget: () => Promise<void>
}

/**
 * Passes the names of apps to the gateway, and rechecks domains regularly. Resolves when the gateway has all names, or
 * when it cannot be reached.
 */
export async function leadDomains(
  composition: Pick<Composition, 'config' | 'state' | 'stack' | 'logger'>,
  given: {
    readonly gateway: Pick<EdgeGateway, 'name' | 'names' | 'answerAt'>
    readonly look: LookAtDns
    readonly apps: Pick<AppStore, 'lock'>
  },
): Promise<DomainsWork> {
  const { config, state, stack, logger } = composition
  const { gateway, apps } = given
  const database = state.db
  const forget = () => forgetHolders(database)
  // In ports mode, apps have no names. The rows stay for a later start in hostnames mode.
  if (config.apps.mode === 'ports') return { forget }
  const operatorId = await createAccounts({ database }).ensureOperator()
  const dashboardHost = config.edge === null ? [] : [config.edge.dashboardHost]
  await holdOwnNames(database, operatorId, [config.apps.domain, ...dashboardHost])
  if (config.edge !== null) await gateway.answerAt(probePath, await agreeOnProbeText(database))
  const sync = await startNameSync({
    served: () => servedDomains(database),
    name: gateway.name,
    told: new Map(gateway.names().map(({ appId, names }) => [appId, names])),
    logger,
  })
  stack.defer('names of apps', () => sync.stop())
  const runCheck = createRunCheck({ database, lockApp: apps.lock, look: given.look })
  const checker = startChecker({ database, runCheck, logger })
  stack.defer('checks of domains', () => checker.stop())
  const wake = () => {
    sync.wake()
    checker.wake()
  }
  const listener = listen({
    connection: state.connection,
    logger,
    channels: { [domainsChannel]: wake },
    onListening: wake,
  })
  stack.defer('listening for changes of domains', () => listener.stop())
  return { forget }
}
