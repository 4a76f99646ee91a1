import { readFile } from 'node:fs/promises'
import type { Middleware } from 'koa'
import { assetFile } from '../../platform/package-files.ts'
import { clientOrigin, type IsTrustedProxy } from '../client-address.ts'
import { originMark } from './page.ts'

/** The policy allows nothing from other hosts, nothing inline, and no framing. */
const pagePolicy =
  "default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const makeDocument = async () => (await import('./openapi.ts')).openApiDocument()

const asset = (name: string) => async () => readFile(assetFile(name), 'utf8')

interface ReferenceFile {
  readonly type: string
  make(): Promise<string>
}

const files: ReadonlyMap<string, ReferenceFile> = new Map([
  ['/openapi.json', { type: 'application/json', make: async () => JSON.stringify(await makeDocument()) }],
  ['/docs', { type: 'text/html', make: async () => (await import('./page.ts')).referencePage(await makeDocument()) }],
  ['/docs/style.css', { type: 'text/css', make: asset('docs/style.css') }],
  ['/docs/page.js', { type: 'text/javascript', make: asset('docs/page.js') }],
  ['/fairlead.schema.json', { type: 'application/json', make: asset('fairlead.schema.json') }],
])

/**
 * Serves `/openapi.json`, its page `/docs`, and the schema of `fairlead.json`. They are open to everybody: they contain
 * nothing about this installation. Each is made at its first request, because most servers never need the memory.
 */
export function reference(isTrustedProxy: IsTrustedProxy): Middleware {
  const bodies = new Map<string, string>()
  return async (ctx, next) => {
    const file = ctx.method === 'GET' || ctx.method === 'HEAD' ? files.get(ctx.path) : undefined
    if (file === undefined) return next()
    const body = bodies.get(ctx.path) ?? (await file.make())
    bodies.set(ctx.path, body)
    if (file.type === 'text/html') ctx.set('Content-Security-Policy', pagePolicy)
    ctx.set('Cache-Control', 'no-cache')
    ctx.type = file.type
    ctx.body = file.type === 'text/html' ? body.replaceAll(originMark, clientOrigin(ctx.req, isTrustedProxy)) : body
  }
}
