import { expect } from 'vitest'
import { notFound } from '../../server/src/contract/errors.ts'
import { type Operation, operations, type ResponseBody } from '../../server/src/contract/operations.ts'
import type { OperationName, PathParam } from '../../server/src/contract/routes.ts'
import { newId } from '../../server/src/platform/ids.ts'
import { paramKinds, pathOf, requestOf } from './requests.ts'
import type { TestServer } from './server.ts'

/** A client: an API key under /v1, or a signed-in user under /dashboard/api. */
export interface Caller {
  readonly baseUrl: string
  readonly fetch: typeof fetch
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

type Params<Name extends OperationName> = Readonly<Record<PathParam<Name>, string>>

export function withKey(server: TestServer, apiKey: string): Caller {
  return {
    baseUrl: server.baseUrl,
    fetch(target, init) {
      const headers = new Headers(init?.headers)
      headers.set('authorization', `Bearer ${apiKey}`)
      return fetch(target, { ...init, headers })
    },
  }
}

/** Calls an operation as any HTTP client would. Without a body it sends the example of the declaration. */
export async function ask<Name extends OperationName>(
  caller: Caller,
  name: Name,
  params: Params<Name>,
  body?: unknown,
): Promise<Answer> {
  const operation = declared(name)
  const response = await caller.fetch(caller.baseUrl + pathOf(operation, params), requestOf(operation, body))
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** Calls an operation, and expects the declared status and exactly the declared fields. */
export async function succeed<Name extends OperationName>(
  caller: Caller,
  name: Name,
  params: Params<Name>,
  body?: unknown,
): Promise<ResponseBody<Name>> {
  const { status, response } = declared(name)
  const answer = await ask(caller, name, params, body)
  expect([answer.status, answer.text]).toEqual([status, expect.anything()])
  if (response === undefined) {
    expect(answer.text).toBe('')
    return undefined as ResponseBody<Name>
  }
  const given: unknown = JSON.parse(answer.text)
  // Parsing strips undeclared fields, and throws when a declared one is missing.
  expect(response.parse(given)).toEqual(given)
  return given as ResponseBody<Name>
}

/**
 * Calls an operation on resources that do not exist or are not visible, and always expects the same 404. It replaces
 * each identifier by a random id and by nonsense, and uses another project and another account's resources.
 */
export async function expectNotFound<Name extends OperationName>(
  server: TestServer,
  name: Name,
  existing: Params<Name>,
  caller: Caller = withKey(server, server.apiKey),
): Promise<void> {
  const operation = declared(name)
  const kinds = paramKinds(operation)
  const missing = Object.entries(kinds).flatMap(([param, kind]) =>
    [newId(kind), 'nonsense', '\0'].map((id) => ({ ...existing, [param]: id })),
  )
  if ('project_id' in kinds && Object.keys(kinds).length > 1) {
    const { id } = await server.client.projects.create({ body: { name: 'another' } })
    missing.push({ ...existing, project_id: id })
  }
  const answers = [
    await ask(await strangerTo(server, operation), name, existing),
    ...(await Promise.all(missing.map((params) => ask(caller, name, params)))),
  ]
  const expected = [404, JSON.stringify(notFound().toBody())]
  expect(answers.map(({ status, text }) => [status, text])).toEqual(answers.map(() => expected))
}

async function strangerTo(server: TestServer, { access }: Operation): Promise<Caller> {
  const { id: accountId } = await server.accounts.create({ name: 'stranger', plan: 'free' })
  if (access !== 'user') return withKey(server, await server.key({ accountId }))
  return signedIn(server, await server.signIn({ accountId }))
}

/** Returns a client that is signed in with this browser. */
export function signedIn(server: TestServer, browser: { readonly fetch: typeof fetch }): Caller {
  return { baseUrl: `${server.url}/dashboard/api`, fetch: browser.fetch }
}

function declared(name: OperationName): Operation {
  const operation = operations.find((each) => each.name === name)
  if (operation === undefined) throw new Error(`there is no operation ${name}`)
  return operation
}
