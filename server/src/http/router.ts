import { Router } from '@koa/router'

/** Paths are strict and case-sensitive: `Location`, `Link` and idempotency derive from them. */
export function createRouter<State>(): Router<State> {
  return new Router<State>({ strict: true, sensitive: true })
}
