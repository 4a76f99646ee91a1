import type { IdKind } from '../../server/src/contract/ids.ts'
import type { Operation } from '../../server/src/contract/operations.ts'
import { kindOf, paramKind, paramNames } from '../../server/src/contract/path-parameters.ts'
import { exampleOf } from '../../server/src/http/reference/examples.ts'
import { schemaOf } from '../../server/src/http/reference/schemas.ts'

/** Addresses that lead nowhere, at once, for whatever a test makes without meaning it. */
const nowhere: Readonly<Record<string, string>> = { git_url: 'https://127.0.0.1:1/a.git', url: 'http://127.0.0.1:1/' }

/** A body that the operation takes, from its declaration; other people's machines are left alone. */
export function exampleBody(operation: Operation): Record<string, unknown> | undefined {
  if (operation.body === undefined) return undefined
  const example = exampleOf(schemaOf(operation.body, 'input'), kindOf(operation)) as Record<string, unknown>
  // An example of a reference is to nothing that exists.
  const members = Object.entries(example).filter(([name]) => !/_id$|^keep_/.test(name))
  return Object.fromEntries(members.map(([name, value]) => [name, nowhere[name] ?? value]))
}

export function harmless(body: Record<string, unknown>): Record<string, unknown> {
  const members = Object.entries(body).map(([name, value]) => {
    const leadsAway = typeof value === 'string' && /^[a-z+]+:\/\/|@/i.test(value)
    return [name, leadsAway ? (nowhere[name] ?? value) : value]
  })
  return Object.fromEntries(members)
}

/** The path of an operation with its parameters put in. */
export function pathOf(operation: Operation, params: Readonly<Record<string, string>>): string {
  return operation.path.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
}

/** What the parameters of an operation's path identify, by their names. */
export function paramKinds(operation: Operation): Record<string, IdKind> {
  return Object.fromEntries(paramNames(operation.path).map((name) => [name, paramKind(operation, name)]))
}

/** The request of an operation, without its authorization. */
export function requestOf(
  operation: Operation,
  body: unknown = exampleBody(operation),
): { method: string; body?: string | FormData; headers: Record<string, string> } {
  const { method } = operation
  if (operation.upload) {
    const form = new FormData()
    form.append('file', new Blob(['content']), 'file.txt')
    return { method, body: form, headers: {} }
  }
  if (body === undefined || method === 'GET') return { method, headers: {} }
  return { method, body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
}

export function groupOf({ name }: Operation): string {
  return name.split('.')[0] ?? name
}
