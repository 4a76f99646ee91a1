import type { Middleware } from 'koa'

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
