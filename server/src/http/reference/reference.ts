import { readFileSync } from 'node:fs'
import type { Middleware } from 'koa'
import { kindOf } from '../mount.ts'
import { openApiDocument } from './openapi.ts'
import { referencePage } from './page.ts'

/** Beside `src` and `dist`, so that it is found from either. */
const assets = new URL('../../../assets/', import.meta.url)

/** Nothing from another host, nothing inline, no frame around it. */
const pagePolicy =
  "default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/**
 * `/openapi.json`, the page `/docs` that is made of it, and the schema of an app's `fairlead.json`. Open to everybody:
 * they say nothing of this installation.
 */
export function reference(): Middleware {
  const document = openApiDocument(kindOf)
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
