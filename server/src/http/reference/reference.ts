import { readFileSync } from 'node:fs'
import type { Middleware } from 'koa'
import { openApiDocument } from './openapi.ts'
import { referencePage } from './page.ts'

/** Beside `src` and `dist`: the path is the same from either. */
const assets = new URL('../../../assets/', import.meta.url)

/** Allows nothing from other hosts, nothing inline, and no framing. */
const pagePolicy =
  "default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/**
 * Serves `/openapi.json`, the page `/docs` that is generated from it, and the schema of an app's `fairlead.json`. They are
 * open to everybody, because they contain nothing about this installation.
 */
export function reference(): Middleware {
  const document = openApiDocument()
  const files = new Map([
    ['/openapi.json', { type: 'application/json', body: JSON.stringify(document) }],
    ['/docs', { type: 'text/html', body: referencePage(document) }],
    ['/docs/style.css', { type: 'text/css', body: readFileSync(new URL('docs/style.css', assets), 'utf8') }],
    ['/docs/page.js', { type: 'text/javascript', body: readFileSync(new URL('docs/page.js', assets), 'utf8') }],
    [
      '/fairlead.schema.json',
      { type: 'application/json', body: readFileSync(new URL('fairlead.schema.json', assets)) },
    ],
  ])
  return async (ctx, next) => {
    const file = ctx.method === 'GET' || ctx.method === 'HEAD' ? files.get(ctx.path) : undefined
    if (file === undefined) return next()
    if (file.type === 'text/html') ctx.set('Content-Security-Policy', pagePolicy)
    ctx.set('Cache-Control', 'no-cache')
    ctx.type = file.type
    ctx.body = file.body
  }
}
