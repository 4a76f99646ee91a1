import { errorStatuses } from '../../contract/errors.ts'
import { idPrefixes } from '../../contract/ids.ts'
import { type Operation, operations } from '../../contract/operations.ts'
import { kindOf, paramKind, paramNames } from '../../contract/path-parameters.ts'
import { takesIdempotencyKey } from '../operations/idempotency.ts'
import { pageQuery } from '../page.ts'
import { components, ref, securitySchemes } from './components.ts'
import { exampleId, exampleOf } from './examples.ts'
import { type Schema, schemaOf } from './schemas.ts'

export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query'
  readonly required: boolean
  readonly description: string
  readonly schema: Schema
}

interface Content {
  readonly [mediaType: string]: { readonly schema: Schema; readonly example?: unknown }
}

export interface Response {
  readonly description: string
  readonly headers?: Readonly<Record<string, unknown>>
  readonly content?: Content
}

interface Reference {
  readonly $ref: string
}

export interface OperationObject {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly summary: string
  readonly description: string
  readonly security: readonly Readonly<Record<string, readonly string[]>>[]
  readonly servers?: readonly { readonly url: string; readonly description: string }[]
  readonly parameters: readonly (Parameter | Reference)[]
  readonly requestBody?: { readonly required: boolean; readonly content: Content }
  readonly responses: Readonly<Record<string, Response | Reference>>
}

export interface OpenApi {
  readonly openapi: string
  readonly info: Readonly<Record<string, unknown>> & { readonly title: string; readonly description: string }
  readonly servers: readonly { readonly url: string; readonly description: string }[]
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, OperationObject>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly [part: string]: unknown
  }
}

const introduction = `A cloud platform that a team runs itself: projects, deployments from git, and webhooks.

Every request carries an API key. Bodies are JSON objects in UTF-8, at most 1 MiB; unknown fields are
ignored. Lists are newest first and come in pages. Every error has the same shape and one of six codes.`

/** Returns the whole API as OpenAPI 3.1, generated from the same table as the routes. */
export function openApiDocument(): OpenApi {
  const paths: Record<string, Record<string, OperationObject>> = {}
  const schemas: Record<string, Schema> = {}
  for (const operation of operations) {
    const path = operation.path.replace(/:(\w+)/g, '{$1}')
    paths[path] ??= {}
    paths[path][operation.method.toLowerCase()] = describe(operation, schemas)
  }
  const groups = [...new Set(operations.map(groupOf))]
  return {
    openapi: '3.1.1',
    info: {
      title: 'Fairlead API',
      version: '1',
      description: introduction,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/v1', description: 'This server' }],
    tags: groups.map((name) => ({ name, description: `${titleOf(name)}.` })),
    paths,
    components: {
      securitySchemes: securitySchemes({ forUsers: operations.some(({ access }) => access === 'user') }),
      ...components,
      schemas: { ...components.schemas, ...schemas },
    },
  }
}

function describe(operation: Operation, schemas: Record<string, Schema>): OperationObject {
  const kind = kindOf(operation)
  /** Adds a schema to the components, so that generated clients have a name for the type. */
  const named = (part: 'Body' | 'Answer', schema: Schema): Content => {
    const name = titleOf(operation.name).replaceAll(' ', '') + part
    schemas[name] = schema
    return { 'application/json': { schema: ref('schemas', name) as Schema, example: exampleOf(schema, kind) } }
  }
  const body = operation.body && named('Body', schemaOf(operation.body, 'input'))
  return {
    operationId: operation.name,
    tags: [groupOf(operation)],
    summary: operation.summary,
    description: `${operation.description}\n\n${accessText(operation)}`,
    ...accessOf(operation),
    parameters: parametersOf(operation),
    // A missing body is read as an empty object.
    ...(body === undefined ? {} : { requestBody: { required: !operation.body?.safeParse({}).success, content: body } }),
    ...(operation.upload ? { requestBody: { required: true, content: uploadContent[operation.upload] } } : {}),
    responses: {
      [operation.status]: successOf(operation, named),
      ...Object.fromEntries(errorsOf(operation).map((code) => [errorStatuses[code], ref('responses', code)])),
    },
  }
}

function accessOf({ access }: Operation): Pick<OperationObject, 'security' | 'servers'> {
  if (access === 'user') {
    return {
      security: [{ session: [], sessionSecret: [] }],
      servers: [{ url: '/dashboard/api', description: 'For signed-in users' }],
    }
  }
  return { security: [{ apiKey: access === 'any' ? [] : [access] }] }
}

function accessText({ access }: Operation): string {
  if (access === 'user') return 'For signed-in users; API keys cannot do this.'
  return access === 'any' ? 'Any valid API key may do this.' : `The API key needs the permission \`${access}\`.`
}

function parametersOf(operation: Operation): (Parameter | Reference)[] {
  const inPath = paramNames(operation.path).map((name): Parameter => {
    const kind = paramKind(operation, name)
    return {
      name,
      in: 'path',
      required: true,
      description: `The identifier of the ${kind}, \`${idPrefixes[kind]}_…\`.`,
      schema: { type: 'string', examples: [exampleId(kind)] },
    }
  })
  const own = Object.entries(operation.query === undefined ? {} : (schemaOf(operation.query, 'input').properties ?? {}))
  const required = operation.query === undefined ? [] : (schemaOf(operation.query, 'input').required ?? [])
  const inQuery = own.map(([name, { description = '', ...schema }]): Parameter => {
    return { name, in: 'query', required: required.includes(name), description, schema }
  })
  const page = operation.list ? Object.keys(pageQuery.shape).map((name) => ref('parameters', name)) : []
  const key = takesIdempotencyKey(operation) ? [ref('parameters', 'IdempotencyKey')] : []
  return [...inPath, ...page, ...inQuery, ...key]
}

const uploadContent: Readonly<Record<NonNullable<Operation['upload']>, Content>> = {
  'multipart/form-data': {
    'multipart/form-data': {
      schema: {
        type: 'object',
        properties: {
          file: { type: 'string', format: 'binary', description: 'The file; the part may have any name.' },
          name: { type: 'string', description: 'Renames it.' },
        },
        required: ['file'],
      },
    },
  },
  // OpenAPI 3.1 describes raw bytes by the media type alone.
  'application/x-git-bundle': { 'application/x-git-bundle': { schema: {} } },
}

function successOf(operation: Operation, named: (part: 'Answer', schema: Schema) => Content): Response {
  const headers = {
    'X-Request-Id': ref('headers', 'RequestId'),
    'X-RateLimit-Limit': ref('headers', 'RateLimitLimit'),
    'X-RateLimit-Remaining': ref('headers', 'RateLimitRemaining'),
    'X-RateLimit-Reset': ref('headers', 'RateLimitReset'),
    ...(operation.list ? { Link: ref('headers', 'Link') } : {}),
    ...(operation.status === 201 ? { Location: ref('headers', 'Location') } : {}),
    ...(takesIdempotencyKey(operation) ? { 'Idempotent-Replayed': ref('headers', 'IdempotentReplayed') } : {}),
  }
  const description = { 200: 'Done.', 201: 'Created.', 204: 'Done; there is no body.' }[operation.status]
  if (operation.text) return { description, headers, content: { 'text/plain': { schema: { type: 'string' } } } }
  if (operation.response === undefined) return { description, headers }
  return { description, headers, content: named('Answer', schemaOf(operation.response, 'output')) }
}

function errorsOf(operation: Operation): (keyof typeof errorStatuses)[] {
  // A change without parameters can still be refused because of the resource's state.
  const checked = operation.query ?? operation.list
  const invalid = checked !== undefined || operation.method !== 'GET'
  return [
    ...(invalid ? (['invalid_request'] as const) : []),
    'unauthorized',
    ...(operation.access === 'any' ? [] : (['forbidden'] as const)),
    ...(operation.path.includes(':') ? (['not_found'] as const) : []),
    'rate_limit_exceeded',
    'server_error',
  ]
}

function groupOf({ name }: Operation): string {
  return name.split('.')[0] ?? name
}

/** Returns the name of an operation as a title: `webhooks.rotateSecret` becomes `Webhooks Rotate Secret`. */
export function titleOf(name: string): string {
  const words = name.replace(/([a-z])([A-Z])/g, '$1 $2').split(/[^A-Za-z0-9]+/)
  return words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join(' ')
}
