import type { HandlersOf } from '../../http/call.ts'
import type { Deliveries } from './deliveries.ts'
import type { WebhookRequests } from './webhooks.ts'

export function webhookHandlers(
  webhooks: WebhookRequests,
  deliveries: Deliveries,
): HandlersOf<'webhooks'> & HandlersOf<'deliveries'> {
  return {
    'webhooks.list': ({ principal, page }) => webhooks.list(principal, page),
    'webhooks.create': ({ principal, transaction, body }) => webhooks.create(transaction, principal, body),
    'webhooks.get': ({ principal, params }) => webhooks.get(principal, params.id),
    'webhooks.update': ({ principal, transaction, params, body }) =>
      webhooks.update(transaction, principal, params.id, body),
    'webhooks.delete': async ({ principal, transaction, params }) => {
      await webhooks.delete(transaction, principal, params.id)
      return undefined
    },
    'webhooks.rotateSecret': ({ principal, transaction, params, body }) =>
      webhooks.rotateSecret(transaction, principal, params.id, body),
    'webhooks.test': ({ principal, transaction, params }) => deliveries.test(transaction, principal, params.id),
    'webhooks.recover': ({ principal, transaction, params, body }) =>
      deliveries.recover(transaction, principal, params.id, body),

    'deliveries.list': ({ principal, params, query, page }) =>
      deliveries.list(principal, params.webhook_id, query, page),
    'deliveries.get': ({ principal, params }) => deliveries.get(principal, params.webhook_id, params.id),
    'deliveries.redeliver': ({ principal, transaction, params }) =>
      deliveries.redeliver(transaction, principal, params.webhook_id, params.id),
  }
}
