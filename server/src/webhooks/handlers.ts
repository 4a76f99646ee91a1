import type { HandlersOf } from '../http/call.ts'
import type { Webhooks } from './webhooks.ts'

export function webhookHandlers(webhooks: Webhooks): HandlersOf<'webhooks'> {
  return {
    'webhooks.list': ({ principal, page }) => webhooks.list(principal, page),
    'webhooks.create': ({ principal, transaction, body }) => webhooks.create(transaction, principal, body),
    'webhooks.delete': async ({ principal, transaction, params }) => {
      await webhooks.delete(transaction, principal, params.id)
      return undefined
    },
  }
}
