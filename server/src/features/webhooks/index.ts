import type { HandlersOf } from '../../http/call.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { Announce } from '../../platform/announce.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { LeaderParts } from '../../platform/leadership/leader-parts.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Outbound } from '../../platform/outbound.ts'
import { accountLimits, type Plans, type Tier } from '../../platform/plans.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { createDeliveries } from './deliveries.ts'
import { startSending } from './dispatcher.ts'
import { bringDeliveriesForward } from './due.ts'
import { webhookHandlers } from './handlers.ts'
import { announce } from './outbox.ts'
import { createWebhookRequests } from './webhooks.ts'

export interface WebhooksParts {
  readonly database: Database
  readonly secrets: SecretBox
  readonly outbound: Outbound
  readonly plans: Plans
  /** The retention of events and their deliveries, in milliseconds. */
  readonly retentionMs: number
  readonly logger: Logger
  readonly tierOf: (on: Database | Transaction, accountId: string) => Promise<Tier>
  readonly totals: Pick<Totals, 'takeOne'>
  readonly findProject: (accountId: string, projectId: string, on: Transaction) => Promise<TenantProject | undefined>
  /** Keeps the project from being deleted until the transaction ends; false when it is no longer active. */
  readonly holdProject: (transaction: Transaction, projectId: string) => Promise<boolean>
}

export interface Webhooks {
  readonly handlers: HandlersOf<'webhooks' | 'deliveries'>
  readonly announce: Announce
  /** Sends deliveries as soon as they are due, and removes old deliveries, as long as this server leads. */
  lead(leader: LeaderParts): WebhooksWork
}

export interface WebhooksWork {
  wake(): void
  /** Makes deliveries that wait for a later attempt due earlier, because the clock was set back by `ms`. */
  bringForward(transaction: Transaction, ms: number): Promise<void>
}

export function createWebhooks(parts: WebhooksParts): Webhooks {
  const { database, secrets, outbound, plans, retentionMs, logger, tierOf, totals, findProject, holdProject } = parts
  const limitsOf = async (on: Database | Transaction, accountId: string) =>
    accountLimits(plans, await tierOf(on, accountId))
  const webhooks = createWebhookRequests({
    database,
    secrets,
    outbound,
    ownsProject: async (transaction, { accountId }, id) =>
      (await findProject(accountId, id, transaction)) !== undefined && (await holdProject(transaction, id)),
    maxWebhooks: async (transaction, accountId) => (await limitsOf(transaction, accountId)).webhooks,
  })
  return {
    handlers: webhookHandlers(webhooks, createDeliveries({ database, totals })),
    announce,

    lead(leader) {
      const sending = startSending({
        database: leader.database,
        connection: leader.connection,
        secrets,
        outbound,
        retentionMs,
        mostDeliveries: async (accountId) => (await limitsOf(leader.database, accountId)).deliveries,
        logger,
      })
      leader.stack.defer('webhooks', () => sending.stop())
      return { wake: sending.wake, bringForward: bringDeliveriesForward }
    },
  }
}
