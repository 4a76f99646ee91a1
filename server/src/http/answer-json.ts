import type { Context } from 'koa'

/**
 * Answers with JSON. It is given to Koa as a text, because Koa compares any other body with `Response`, and reading that name
 * loads Node's whole client for the web, see `platform/machine/http.ts`.
 */
export function answerJson(ctx: Pick<Context, 'type' | 'body'>, value: unknown): void {
  ctx.type = 'json'
  ctx.body = JSON.stringify(value)
}
