import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Middleware } from 'koa'
import { builtFile } from '../../platform/machine/own-files.ts'

/** The build packs the command of users into this file. */
const packed = builtFile('cli.tgz')

interface Package {
  readonly content: Buffer
  readonly etag: string
}

/**
 * Serves `/cli.tgz`: the package `@fairlead/cli` of exactly this server's version, which npm installs or runs from this
 * address. It is open to everybody and contains nothing about this installation. It is read for its first request.
 */
export function commandPackage(): Middleware {
  let reading: Promise<Package> | undefined
  return async (ctx, next) => {
    if (ctx.path !== '/cli.tgz' || (ctx.method !== 'GET' && ctx.method !== 'HEAD')) return next()
    reading ??= read()
    const found = await reading.catch((error: NodeJS.ErrnoException) => {
      reading = undefined
      if (error.code !== 'ENOENT') throw error
    })
    // A checkout whose command is not built.
    if (found === undefined) return next()
    ctx.set('Cache-Control', 'no-cache')
    ctx.set('ETag', found.etag)
    // RFC 9110 §13.1.2. Koa's own comparison also heeds the client's `Cache-Control`, which is for caches on the way.
    const known = ctx
      .get('If-None-Match')
      .split(',')
      .map((tag) => tag.trim().replace(/^W\//, ''))
    if (known.includes(found.etag)) {
      ctx.status = 304
      return
    }
    ctx.type = 'application/gzip'
    ctx.body = found.content
  }
}

async function read(): Promise<Package> {
  const content = await readFile(packed)
  return { content, etag: `"${createHash('sha256').update(content).digest('base64url')}"` }
}
