import { createRequire } from 'node:module'
import type { Router } from '@koa/router'

// Its form for `import` imports `node:http` whole, which takes 14 MB of memory, see `platform/machine/http.ts`.
const koaRouter = createRequire(import.meta.url)('@koa/router') as typeof import('@koa/router')

/** Makes a router of Koa. Paths are strict and case-sensitive: `Location`, `Link` and idempotency derive from them. */
export function createRouter<State>(): Router<State> {
  return new koaRouter.Router<State>({ strict: true, sensitive: true })
}
