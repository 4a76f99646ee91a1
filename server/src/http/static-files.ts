import { createHash, randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import type { Middleware } from 'koa'
import { lookup } from 'mrmime'
import { builtFile } from '../platform/package-files.ts'

/** The folder that the build writes the dashboard to. */
export const dashboardDirectory = builtFile('dashboard')

interface StaticFile {
  readonly type: string
  readonly plain: Buffer
  readonly gzip: Buffer | undefined
  readonly brotli: Buffer | undefined
}

/**
 * Answers GET and HEAD requests that nothing before it has answered. Files with a hash in their name are cached for
 * ever. Other paths get the app shell, so that deep links work.
 */
export async function dashboardFiles(directory: string): Promise<Middleware> {
  const files = await readAll(directory)
  const page = files.get('/index.html')?.plain.toString()
  const scripts = `'self' ${inlineHashes(page ?? '')}`.trim()

  return async (ctx, next) => {
    if ((ctx.method !== 'GET' && ctx.method !== 'HEAD') || page === undefined) return next()
    const file = ctx.path === '/index.html' ? undefined : files.get(ctx.path)
    if (file !== undefined) {
      const isNamedByHash = ctx.path.startsWith('/assets/')
      ctx.set('Cache-Control', isNamedByHash ? 'public, max-age=31536000, immutable' : 'no-cache')
      ctx.set('Content-Security-Policy', workerPolicy)
      ctx.vary('Accept-Encoding')
      const encoding = ctx.acceptsEncodings(...(file.brotli ? ['br'] : []), ...(file.gzip ? ['gzip'] : []), 'identity')
      if (encoding === 'br' || encoding === 'gzip') ctx.set('Content-Encoding', encoding)
      ctx.type = file.type
      ctx.body = (encoding === 'br' ? file.brotli : encoding === 'gzip' ? file.gzip : undefined) ?? file.plain
      return
    }
    // Without `Accept: text/html`, a missing file is a 404.
    if (ctx.path.startsWith('/assets/') || !ctx.get('Accept').includes('text/html')) return next()
    const nonce = randomBytes(16).toString('base64')
    ctx.set('Cache-Control', 'no-store')
    ctx.set('Content-Security-Policy', policy(scripts, nonce))
    ctx.type = 'html'
    ctx.body = page.replace('%NONCE%', nonce)
  }
}

/** A worker uses its script's policy, which is the same for all files. */
const workerPolicy = "default-src 'none'; script-src 'self'; connect-src 'self'; frame-ancestors 'none'"

/** Returns the sources of a content security policy that allow the scripts inside a page, by their hashes. */
function inlineHashes(page: string): string {
  const scripts = [...page.matchAll(/<script>(.*?)<\/script>/gs)].map(([, script = '']) => script)
  return scripts.map((script) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`).join(' ')
}

/**
 * Allows nothing from other hosts and nothing inline, except the page's first script and the style elements that stop
 * scrolling behind a dialog.
 */
function policy(scripts: string, nonce: string): string {
  return [
    "default-src 'none'",
    `script-src ${scripts}`,
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self'",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join('; ')
}

async function readAll(directory: string): Promise<Map<string, StaticFile>> {
  const names = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => [])
  const contents = new Map<string, Buffer>()
  for (const entry of names.filter((each) => each.isFile())) {
    const path = join(entry.parentPath, entry.name)
    contents.set(`/${relative(directory, path).split(sep).join('/')}`, await readFile(path))
  }
  const files = new Map<string, StaticFile>()
  for (const [path, plain] of contents) {
    if (path.endsWith('.br') || path.endsWith('.gz')) continue
    const type = lookup(path) ?? 'application/octet-stream'
    files.set(path, { type, plain, gzip: contents.get(`${path}.gz`), brotli: contents.get(`${path}.br`) })
  }
  return files
}

/** The command-line program, packed by the build. */
const packed = builtFile('cli.tgz')

interface Package {
  readonly content: Buffer
  readonly etag: string
}

/**
 * Serves `/cli.tgz`: the package `@fairlead/cli` of this server's version, for npm. It is open to everybody: it
 * contains nothing about this installation.
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
    // A checkout may have no built command.
    if (found === undefined) return next()
    ctx.set('Cache-Control', 'no-cache')
    ctx.set('ETag', found.etag)
    // RFC 9110 §13.1.2. Koa also heeds the client's `Cache-Control`, which is for caches on the way.
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
