import type { Handlers } from '../http/mount.ts'
import type { Webhooks } from './webhooks.ts'

export function webhookOperations(
  webhooks: Webhooks,
): Handlers<'webhooks.list' | 'webhooks.create' | 'webhooks.delete'> {
  return {
    'webhooks.list': ({ principal }) => webhooks.list(principal),
    'webhooks.create': ({ principal, body }) => webhooks.create(principal, body),
    'webhooks.delete': async ({ principal, params }) => {
      await webhooks.delete(principal, params.id)
      return undefined
    },
  }
}
