import { type IdKind, kindOf, paramKind, paramNames } from '../../server/src/contract/ids.ts'
import type { Operation } from '../../server/src/contract/operations.ts'
import { exampleOf, schemaOf } from '../../server/src/http/reference/json-schema.ts'

/** Addresses that fail at once, for resources that a test creates only as a side effect. */
const nowhere: Readonly<Record<string, string>> = { git_url: 'https://127.0.0.1:1/a.git', url: 'http://127.0.0.1:1/' }

/** Returns a body that the operation accepts, from its declaration, without addresses of real machines. */
export function exampleBody(operation: Operation): Record<string, unknown> | undefined {
  if (operation.body === undefined) return undefined
  const example = exampleOf(schemaOf(operation.body, 'input'), kindOf(operation)) as Record<string, unknown>
  // Omits references, because their examples name nothing that exists.
  const members = Object.entries(example).filter(([name]) => !/_id$|^keep_/.test(name))
  return Object.fromEntries(members.map(([name, value]) => [name, nowhere[name] ?? value]))
}

/** Replaces all addresses in a body, so that the request reaches no real machine. */
export function harmless(body: Record<string, unknown>): Record<string, unknown> {
  const members = Object.entries(body).map(([name, value]) => {
    const isAddress = typeof value === 'string' && /^[a-z+]+:\/\/|@/i.test(value)
    return [name, isAddress ? (nowhere[name] ?? value) : value]
  })
  return Object.fromEntries(members)
}

/** Returns the path of an operation with its parameters filled in. */
export function pathOf(operation: Operation, params: Readonly<Record<string, string>>): string {
  return operation.path.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
}

/** Returns the kinds of the ids in an operation's path, by the names of the parameters. */
export function paramKinds(operation: Operation): Record<string, IdKind> {
  return Object.fromEntries(paramNames(operation.path).map((name) => [name, paramKind(operation, name)]))
}

/** Returns the request of an operation, without authorization. */
export function requestOf(
  operation: Operation,
  body: unknown = exampleBody(operation),
): { method: string; body?: string | FormData; headers: Record<string, string> } {
  const { method } = operation
  if (operation.upload === 'application/x-git-bundle') {
    return { method, body: 'no bundle', headers: { 'content-type': operation.upload } }
  }
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
