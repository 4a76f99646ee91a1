import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Context, Middleware } from 'koa'
import send from 'send'
import { notFound } from '../contract/errors.ts'
import { isId } from '../contract/ids.ts'
import type { Logger } from '../platform/logger.ts'
import { filesPath } from './address.ts'
import type { FileStore } from './disk.ts'
import type { StoredFile } from './files.ts'

interface DownloadDependencies {
  readonly byAddress: (id: string, token: string) => Promise<StoredFile | undefined>
  readonly store: FileStore
  readonly logger: Logger
}

const address = new RegExp(`^${filesPath}/([^/]+)/([^/]+)$`)

/**
 * Serves files by their addresses: whole or in ranges, under conditions, and to HEAD (RFC 9110).
 * Throws `not_found` for every address that is none; passes on what is not under `/files`.
 */
export function downloads({ byAddress, store, logger }: DownloadDependencies): Middleware {
  return async (ctx, next) => {
    if (!ctx.path.startsWith(`${filesPath}/`)) return next()
    const [, id = '', token = ''] = address.exec(ctx.path) ?? []
    if ((ctx.method !== 'GET' && ctx.method !== 'HEAD') || !isId('file', id)) throw notFound()
    const file = await byAddress(id, token)
    if (file === undefined) throw notFound()

    const { root, path } = store.locate(id)
    describe(ctx, file)
    // RFC 9110 §14.2: ranges are for GET.
    if (ctx.method === 'HEAD') delete ctx.req.headers.range
    ctx.res.statusCode = 200
    ctx.respond = false
    try {
      await transmit(ctx.req, ctx.res, { root, path })
    } catch (error) {
      logger.error({ err: error, file: id }, 'a file cannot be read')
      if (ctx.headerSent) return void ctx.res.destroy()
      ctx.respond = true
      ctx.remove('Content-Disposition')
      throw error
    }
  }
}

function describe(ctx: Context, file: StoredFile): void {
  // RFC 6266 with RFC 8187 for names beyond ASCII.
  ctx.attachment(file.name)
  ctx.set({
    'Content-Type': file.contentType,
    ETag: `"${file.sha256}"`,
    'Last-Modified': file.uploadedAt.toUTCString(),
    // A deleted file is gone at once; a kept copy costs one question.
    'Cache-Control': 'private, no-cache',
    // An uploaded page can do nothing, wherever it is opened.
    'Content-Security-Policy': "sandbox; default-src 'none'",
    'X-Content-Type-Options': 'nosniff',
    // The address alone gives the right; so pages of other origins may show the file.
    'Cross-Origin-Resource-Policy': 'cross-origin',
    'Referrer-Policy': 'no-referrer',
  })
}

/** Resolves when the answer is out, or its receiver gone. Rejects when the file cannot be read. */
function transmit(
  request: IncomingMessage,
  response: ServerResponse,
  { root, path }: { readonly root: string; readonly path: string },
): Promise<void> {
  return new Promise((done, fail) => {
    response.once('close', done)
    send(request, `/${path}`, { root, cacheControl: false, etag: false, lastModified: false, index: false })
      .on('error', (error: Error & { status?: number; headers?: Record<string, string> }) => {
        if (error.status !== 412 && error.status !== 416) return fail(error)
        for (const name of ['Content-Disposition', 'Content-Type', 'Content-Length']) response.removeHeader(name)
        response.writeHead(error.status, { ...error.headers, 'Content-Length': 0 }).end()
      })
      .pipe(response)
  })
}
