import type { ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { AuditLog } from './audit-log.ts'
import type { ApiKeys } from './keys.ts'
import type { TrustRules } from './trust/rules.ts'

export type AccountHandlers = Omit<
  HandlersOf<'account' | 'apiKeys' | 'auditLog' | 'trust'>,
  'account.usage' | 'account.plans' | 'account.search'
>

export function accountHandlers(parts: {
  readonly describe: (accountId: string) => Promise<ResponseBody<'account.get'>>
  readonly apiKeys: ApiKeys
  readonly auditLog: AuditLog
  readonly trust: TrustRules
}): AccountHandlers {
  const { describe, apiKeys, auditLog, trust } = parts
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
    'trust.list': ({ project, page }) => trust.list(project.id, page),
    'trust.create': ({ project, transaction, body }) => trust.create(transaction, project, body),
    'trust.delete': async ({ project, transaction, params }) => {
      await trust.delete(transaction, project.id, params.id)
      return undefined
    },
    'auditLog.list': ({ principal, page }) => auditLog.list(principal.accountId, page),
  }
}
