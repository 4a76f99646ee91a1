import { createAccounts } from '../accounts/accounts.ts'
import type { HandlersOf } from '../http/call.ts'
import type { Outbound } from '../platform/outbound.ts'
import { accountLimits } from '../platform/plans.ts'
import type { Tenancy } from '../projects/tenancy.ts'
import { createDeliveries } from '../webhooks/deliveries.ts'
import { type Sending, startSending } from '../webhooks/dispatcher.ts'
import { webhookHandlers } from '../webhooks/handlers.ts'
import { createWebhooks } from '../webhooks/webhooks.ts'
import type { AccountsFeature } from './accounts.ts'
import type { Composition } from './composition.ts'

export function composeWebhooks(
  { config, state, secrets }: Composition,
  { tierOf, totals }: Pick<AccountsFeature, 'tierOf' | 'totals'>,
  tenancy: Tenancy,
  outbound: Outbound,
): HandlersOf<'webhooks' | 'deliveries'> {
  const database = state.db
  const webhooks = createWebhooks({
    database,
    secrets,
    outbound,
    ownsProject: async (transaction, principal, id) =>
      (await tenancy.find(principal.accountId, id, transaction)) !== undefined && (await tenancy.hold(transaction, id)),
    maxWebhooks: async (transaction, accountId) =>
      accountLimits(config.plans, await tierOf(transaction, accountId)).webhooks,
  })
  return webhookHandlers(webhooks, createDeliveries({ database, totals }))
}

export function leadWebhooks({ config, logger, state, secrets, stack }: Composition, outbound: Outbound): Sending {
  const accounts = createAccounts({ database: state.db })
  const sending = startSending({
    database: state.db,
    connection: state.connection,
    secrets,
    outbound,
    retentionMs: config.webhooks.retentionMs,
    mostDeliveries: async (accountId) =>
      accountLimits(config.plans, (await accounts.get(accountId))?.plan ?? 'free').deliveries,
    logger,
  })
  stack.defer('webhooks', () => sending.stop())
  return sending
}
