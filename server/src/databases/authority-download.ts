import type { Middleware } from 'koa'

/**
 * Answers with the certificate of the authority that signs for the clusters of users' databases (RFC 8555 §9.1 names the
 * media type). It is open to everybody: all who connect need it, and it is no secret.
 *
 * @param authority returns it as PEM; `null` where databases are on a server that its operator administers
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
