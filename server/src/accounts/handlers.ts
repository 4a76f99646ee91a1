import type { ResponseBody } from '../contract/operations.ts'
import type { HandlersOf } from '../http/call.ts'
import type { ApiKeys } from './api-keys.ts'
import type { AuditLog } from './audit-log.ts'

export function accountHandlers(parts: {
  readonly describe: (accountId: string) => Promise<ResponseBody<'account.get'>>
  readonly apiKeys: ApiKeys
  readonly auditLog: AuditLog
}): HandlersOf<'account' | 'apiKeys' | 'auditLog'> {
  const { describe, apiKeys, auditLog } = parts
  return {
    'account.get': ({ principal }) => describe(principal.accountId),
    'apiKeys.list': ({ principal, page }) => apiKeys.list(principal.accountId, page),
    'apiKeys.create': ({ principal, transaction, body }) => apiKeys.create(transaction, principal.accountId, body),
    'apiKeys.delete': async ({ principal, transaction, params }) => {
      await apiKeys.revoke(transaction, principal.accountId, params.id)
      return undefined
    },
    'apiKeys.rotate': ({ principal, transaction, params, body }) =>
      apiKeys.rotate(transaction, principal.accountId, params.id, body.overlap_hours),
    'auditLog.list': ({ principal, page }) => auditLog.list(principal.accountId, page),
  }
}
