import type { Context, Middleware } from 'koa'
import { notFound } from '../../contract/errors.ts'
import { isId } from '../../contract/ids.ts'
import { outcome } from '../../platform/conditional-requests.ts'
import { filesPath } from './addresses.ts'
import type { StoredFile } from './files.ts'
import type { FileStore } from './store.ts'

interface DownloadDependencies {
  readonly byAddress: (id: string, token: string) => Promise<StoredFile | undefined>
  readonly store: Pick<FileStore, 'read'>
}

const address = new RegExp(`^${filesPath}/([^/]+)/([^/]+)$`)

/**
 * Serves files at their addresses, with ranges, conditional requests and HEAD (RFC 9110). Throws `not_found` for every
 * wrong address under `/files`; other paths go to the next middleware.
 */
export function downloads({ byAddress, store }: DownloadDependencies): Middleware {
  return async (ctx, next) => {
    if (!ctx.path.startsWith(`${filesPath}/`)) return next()
    const [, id = '', token = ''] = address.exec(ctx.path) ?? []
    if ((ctx.method !== 'GET' && ctx.method !== 'HEAD') || !isId('file', id)) throw notFound()
    const file = await byAddress(id, token)
    if (file === undefined) throw notFound()

    const { size } = file
    const etag = `"${file.sha256}"`
    const answer = outcome(ctx.method, ctx.headers, { etag, lastModified: file.uploadedAt, size })
    const { start, end } = answer.status === 206 ? answer.range : { start: 0, end: size - 1 }
    const sent = answer.status === 200 || answer.status === 206
    // Opened before any header is set, so that an error while reading has no headers of the file.
    const body = sent && ctx.method === 'GET' ? await store.read(id, { start, end }) : undefined

    ctx.status = answer.status
    ctx.set({ ETag: etag, 'Last-Modified': file.uploadedAt.toUTCString(), 'Accept-Ranges': 'bytes' })
    protect(ctx)
    if (sent) {
      // Sets Content-Disposition (RFC 6266, and RFC 8187 for names beyond ASCII) and a Content-Type that the next line
      // replaces.
      ctx.attachment(file.name)
      ctx.set('Content-Type', file.contentType)
      if (body !== undefined) ctx.body = body
      ctx.length = end - start + 1
    }
    if (answer.status === 206) ctx.set('Content-Range', `bytes ${start}-${end}/${size}`)
    if (answer.status === 416) ctx.set('Content-Range', `bytes */${size}`)
    if (answer.status === 416 || answer.status === 412) ctx.body = ''
  }
}

function protect(ctx: Context): void {
  ctx.set({
    // Clients revalidate a cached copy each time, so a deleted file is gone at once.
    'Cache-Control': 'private, no-cache',
    // An uploaded page runs no scripts and loads nothing, wherever it is opened.
    'Content-Security-Policy': "sandbox; default-src 'none'",
    'X-Content-Type-Options': 'nosniff',
    // The address is the only permission, so pages of other origins may embed the file.
    'Cross-Origin-Resource-Policy': 'cross-origin',
    'Referrer-Policy': 'no-referrer',
  })
}
