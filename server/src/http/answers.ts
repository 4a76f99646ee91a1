import { isDeepStrictEqual } from 'node:util'
import type { RouterContext } from '@koa/router'
import { type Operation, operations } from '../contract/operations.ts'
import { answerJson } from './bodies.ts'
import type { TextAnswer } from './call.ts'
import { nextLink, type Page } from './page.ts'

/** A handler's result, as plain data, so that it can be stored for a repeated request. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly text?: TextAnswer
}

/** Strips a result to the declared response. With `strict`, which tests use, an undeclared field is an error. */
export function renderAnswer(
  operation: Operation,
  result: unknown,
  request: {
    readonly path: string
    readonly params: Readonly<Record<string, string>>
    readonly query: Readonly<Record<string, unknown>>
    readonly strict: boolean
  },
): Answer {
  const { status } = operation
  if (operation.text) {
    const text = result as TextAnswer
    return { status, headers: text.headers ?? {}, text }
  }
  if (operation.response === undefined) return { status, headers: {} }
  const { body, next } = operation.list ? (result as Page<unknown>) : { body: result, next: null }
  const stripped = operation.response.parse(body)
  if (request.strict && !isDeepStrictEqual(stripped, body)) {
    throw new Error(`${operation.name} answered with fields that it does not declare: ${JSON.stringify(body)}`)
  }
  const headers = {
    ...(next === null ? {} : { Link: nextLink(request.path, request.query, next) }),
    ...(status === 201 ? { Location: locationOf(operation, request, (stripped as { id: string }).id) } : {}),
  }
  return { status, headers, body: stripped }
}

function locationOf(
  { name, path }: Operation,
  request: { readonly path: string; readonly params: Readonly<Record<string, string>> },
  id: string,
): string {
  const fill = (template: string) => template.replace(/:(\w+)/g, (_, param: string) => request.params[param] ?? id)
  const read = operations.find((operation) => operation.name === `${name.split('.')[0]}.get`)
  return request.path.slice(0, -fill(path).length) + fill(read?.path ?? `${path}/:id`)
}

export function sendAnswer(ctx: RouterContext, answer: Answer): void {
  ctx.status = answer.status
  ctx.set(answer.headers)
  if (answer.text !== undefined) {
    ctx.type = answer.text.type
    ctx.body = answer.text.body
  } else if (answer.body !== undefined) {
    answerJson(ctx, answer.body)
  }
}
