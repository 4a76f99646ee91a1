import type { Middleware } from 'koa'
import type { BodyOutput } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { Principal, TenantProject } from '../../http/principal.ts'
import type { Transaction } from '../../platform/database.ts'
import type { DatabaseRequests } from './databases.ts'
import type { Snapshots } from './snapshots.ts'

export type LinkApp = (
  transaction: Transaction,
  caller: { readonly principal: Principal; readonly project: TenantProject },
  link: BodyOutput<'links.create'>,
) => Promise<unknown>

export function databaseHandlers({
  requests: databases,
  snapshots,
  linkApp,
}: {
  readonly requests: DatabaseRequests
  readonly snapshots: Snapshots
  readonly linkApp: LinkApp
}): HandlersOf<'databases' | 'snapshots'> {
  return {
    'databases.list': ({ project, page }) => databases.list(project, page),
    'databases.create': async ({ transaction, principal, project, body }) => {
      const created = await databases.create(transaction, project, body)
      const { link } = body
      if (link !== undefined) await linkApp(transaction, { principal, project }, { ...link, database: created.id })
      return created
    },
    'databases.get': ({ project, params }) => databases.get(project, params.id),
    'databases.delete': async ({ transaction, project, params }) => {
      await databases.delete(transaction, project, params.id)
      return undefined
    },
    'databases.restore': ({ transaction, project, params }) => databases.restore(transaction, project, params.id),
    'databases.rotatePassword': async ({ transaction, project, params, afterCommit }) => {
      const { body, applied } = await databases.rotatePassword(transaction, project, params.id)
      afterCommit(applied)
      return body
    },

    'snapshots.list': ({ project, params, page }) => snapshots.list(project, params.database_id, page),
    'snapshots.create': ({ transaction, project, params }) =>
      snapshots.create(transaction, project, params.database_id),
    'snapshots.get': ({ project, params }) => snapshots.get(project, params.database_id, params.id),
    'snapshots.delete': async ({ transaction, project, params }) => {
      await snapshots.delete(transaction, project, params.database_id, params.id)
      return undefined
    },
    'snapshots.restore': async ({ transaction, project, params }) => {
      await snapshots.restore(transaction, project, params.database_id, params.id)
      return databases.get(project, params.database_id, transaction)
    },
  }
}

/**
 * Answers with the certificate of the authority for the clusters of users' databases (RFC 8555 §9.1 names the media
 * type). Anybody may read it: all clients need it, and it is not secret.
 *
 * @param authority returns it as PEM; `null` when databases are on an external server
 */
export function authorityDownload(authority: () => Promise<string | null>): Middleware {
  return async (ctx, next) => {
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') return next()
    const certificate = await authority()
    if (certificate === null) return next()
    ctx.type = 'application/pem-certificate-chain'
    ctx.attachment('fairlead-databases-ca.pem')
    ctx.body = certificate
  }
}
