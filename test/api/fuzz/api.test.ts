import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type ErrorCode, errorStatuses } from '../../../server/src/contract/errors.ts'
import { kindOf } from '../../../server/src/contract/ids.ts'
import { type Operation, operations } from '../../../server/src/contract/operations.ts'
import { type Schema, schemaOf } from '../../../server/src/http/reference/json-schema.ts'
import { openApiDocument } from '../../../server/src/http/reference/openapi.ts'
import { exampleBody, harmless, paramKinds, pathOf, requestOf } from '../../harness/requests.ts'
import { type OwnServer, ownServer } from '../../harness/server.ts'
import { fitting, identifier, mangled, mutated } from './arbitraries.ts'

/** The number of requests. `npm run test:long -- fuzz` sends more. */
const requests = Number(process.env['FUZZ_REQUESTS'] ?? 400)

interface Fuzzed {
  readonly operation: Operation
  readonly params: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, unknown>>
  readonly body: string | Uint8Array | FormData | undefined
  readonly contentType: string | undefined
  readonly idempotencyKey: string | undefined
  /** True when the request is deliberately invalid and must be refused. */
  readonly broken: boolean
}

let server: OwnServer
/** Existing identifiers by kind, including resources that the fuzzer creates. */
const existing = new Map<string, string[]>()

beforeAll(async () => {
  // Addresses of repositories and endpoints do not answer, and fetches are given up at once.
  server = await ownServer({
    FAIRLEAD_OUTBOUND: 'any',
    FAIRLEAD_FETCH_TIMEOUT: '1',
    FAIRLEAD_TRUSTED_PROXIES: '127.0.0.1',
  })
  const { id } = await server.client.projects.create({ body: { name: 'fuzz' } })
  existing.set('project', [id])
  for (const operation of operations) {
    if (!operation.name.endsWith('.create') || operation.body === undefined || operation.access === 'user') continue
    const { method, body, headers } = requestOf(operation)
    const response = await fetch(server.baseUrl + pathOf(operation, { project_id: id }), {
      method,
      headers: { ...headers, authorization: `Bearer ${server.apiKey}` },
      ...(body === undefined ? {} : { body }),
    })
    if (response.status === 201) remember(operation, await response.json())
  }
})
afterAll(() => server[Symbol.asyncDispose]())

function remember(operation: Operation, made: unknown): void {
  const kind = kindOf(operation)
  const { id } = made as { id?: string }
  const ids = existing.get(kind) ?? []
  if (id !== undefined && ids.length < 20) existing.set(kind, [...ids, id])
}

const document = openApiDocument()

function statusesOf(operation: Operation): number[] {
  const path = operation.path.replace(/:(\w+)/g, '{$1}')
  return Object.keys(document.paths[path]?.[operation.method.toLowerCase()]?.responses ?? {}).map(Number)
}

const json = 'application/json'

function bodyOf(operation: Operation): fc.Arbitrary<Pick<Fuzzed, 'body' | 'contentType' | 'broken'>> {
  const { body } = operation
  if (operation.upload) return fc.constant({ body: requestOf(operation).body, contentType: undefined, broken: false })
  if (body === undefined) return fc.constant({ body: undefined, contentType: undefined, broken: false })
  const fits = (value: unknown) => body.safeParse(value).success
  const generated = fitting(schemaOf(body, 'input')) as fc.Arbitrary<Record<string, unknown>>
  const valid = fc.oneof(
    fc.constant(exampleBody(operation) ?? {}),
    generated.map((value) => ({ ...exampleBody(operation), ...value })).filter(fits),
    generated.filter(fits),
  )
  const invalid = mutated(valid).filter((value) => !fits(JSON.parse(JSON.stringify(value) ?? 'null')))
  const sent = valid.map((value) => JSON.stringify(harmless(value)))
  const as = (broken: boolean, contentType = json) => {
    return (given: string | Uint8Array) => ({ body: given, contentType, broken })
  }
  const notJson = (bytes: Uint8Array) => {
    try {
      JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
      return false
    } catch {
      // The API reads an empty body as an empty object.
      return bytes.length > 0
    }
  }
  return fc.oneof(
    { weight: 5, arbitrary: sent.map(as(false)) },
    { weight: 3, arbitrary: invalid.map((value) => as(true)(JSON.stringify(value))) },
    { weight: 1, arbitrary: mangled(sent).filter(notJson).map(as(true)) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(sent, fc.constantFrom('text/plain', 'application/json; charset=utf-16', 'application/xml', 'x'))
        .map(([text, type]) => as(true, type)(text)),
    },
  )
}

function queryOf(operation: Operation): fc.Arbitrary<Record<string, unknown>> {
  const page: Schema = {
    type: 'object',
    properties: {
      limit: { anyOf: [{ type: 'integer', minimum: 1, maximum: 1000 }, { type: 'string' }] },
      cursor: { anyOf: [{ type: 'string', pattern: '^proj_[0-7][0-9a-hjkmnp-tv-z]{25}$' }, { type: 'string' }] },
    },
  }
  const own = operation.query === undefined ? fc.constant({}) : fitting(schemaOf(operation.query, 'input'))
  const listed = operation.list ? fitting(page) : fc.constant({})
  return fc.tuple(own, listed).map(([one, other]) => ({ ...(one as object), ...(other as object) }))
}

const key = fc.oneof(
  { weight: 4, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: fc.stringMatching(/^[!-~]{1,3}$/) },
  { weight: 1, arbitrary: fc.constantFrom('', 'x'.repeat(256), 'ü') },
)

// Created once: turning schemas into arbitraries takes longer than a request.
const prepared = operations.map((operation) => ({ operation, body: bodyOf(operation), query: queryOf(operation) }))

const anything = fc.constantFrom(...prepared).chain(({ operation, body, query }): fc.Arbitrary<Fuzzed> => {
  const params = Object.entries(paramKinds(operation)).map(([name, kind]) => {
    return [name, identifier(kind, existing.get(kind) ?? [])] as const
  })
  return fc
    .tuple(fc.record(Object.fromEntries(params), { noNullPrototype: true }), query, body, key)
    .map(([given, asked, sent, idempotencyKey]) => ({
      operation,
      params: given,
      query: asked,
      idempotencyKey,
      ...sent,
    }))
})

/** Lets the client notice which kept connections the server has closed: making a request may have taken seconds. */
async function noticeClosedConnections(): Promise<void> {
  await setImmediate()
  await setImmediate()
}

async function send({ operation, params, query, body, contentType, idempotencyKey }: Fuzzed): Promise<Response> {
  const given = Object.entries(query).filter(([, value]) => value !== undefined)
  await noticeClosedConnections()
  const search = new URLSearchParams(
    Object.fromEntries(given.map(([name, value]) => [name, String(value).toWellFormed()])),
  )
  return fetch(`${server.baseUrl}${pathOf(operation, params)}?${search}`, {
    method: operation.method,
    headers: {
      authorization: `Bearer ${server.apiKey}`,
      ...(contentType === undefined ? {} : { 'content-type': contentType }),
      ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
    },
    ...(body === undefined
      ? {}
      : { body: typeof body === 'object' && !(body instanceof FormData) ? Buffer.from(body) : body }),
  })
}

function checkError(status: number, body: unknown): void {
  const { error } = body as { error: { code: ErrorCode; message: string; details: object } }
  expect(Object.keys(body as object)).toEqual(['error'])
  expect(Object.keys(error)).toEqual(['code', 'message', 'details'])
  expect(errorStatuses[error.code]).toBe(status)
  expect(error.message).toEqual(expect.any(String))
  expect(error.details).toEqual(expect.any(Object))
}

async function check(fuzzed: Fuzzed): Promise<void> {
  const { operation, broken } = fuzzed
  const response = await send(fuzzed)
  const { status } = response
  expect(status).toBeLessThan(500)
  // Only for signed-in users: a key is refused before other checks.
  if (operation.access === 'user') expect(status).toBe(403)
  expect(statusesOf(operation)).toContain(status)
  if (operation.text && status === operation.status) return response.body?.cancel()
  const text = await response.text()
  if (status !== operation.status) {
    checkError(status, JSON.parse(text))
  } else {
    expect(broken).toBe(false)
    if (operation.response === undefined) return expect(text).toBe('')
    const body: unknown = JSON.parse(text)
    expect(operation.response.parse(body)).toEqual(body)
    if (status === 201) remember(operation, body)
  }
}

it(`${requests} requests generated from the table are answered as declared, and never with a 5xx`, async () => {
  const statuses = new Map<string, number>()
  // A small number of random requests may contain none of these.
  const operation = operations.find(({ name }) => name === 'projects.create') as Operation
  const sent = { params: {}, query: {}, contentType: json, idempotencyKey: undefined }
  await check({ operation, ...sent, body: '{', broken: true })
  await fc.assert(
    fc.asyncProperty(anything, async (fuzzed) => {
      await check(fuzzed)
    }),
    { numRuns: requests, endOnFailure: requests > 1000 },
  )
  for (const line of server.log) {
    if (line['msg'] !== 'request') continue
    const name = `${line['operation']} ${line['status']}`
    statuses.set(name, (statuses.get(name) ?? 0) + 1)
  }
  expect(server.log.filter((line) => line['msg'] === 'request failed')).toEqual([])
  // The fuzzer must reach both outcomes: creations that succeed and creations that fail.
  expect([...statuses.keys()]).toEqual(expect.arrayContaining(['projects.create 201', 'projects.create 400']))
  if (requests > 1000) console.info(Object.fromEntries([...statuses].sort()))
}, 3_600_000)
