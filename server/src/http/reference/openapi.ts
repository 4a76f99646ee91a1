import { type ErrorCode, errorStatuses } from '../../contract/errors.ts'
import { idPrefixes, kindOf, paramKind, paramNames } from '../../contract/ids.ts'
import { type Operation, operations } from '../../contract/operations.ts'
import { takesIdempotencyKey } from '../idempotency.ts'
import { pageQuery } from '../page.ts'
import { exampleId, exampleOf, type Schema, schemaOf } from './json-schema.ts'

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
    // A missing body counts as an empty object.
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
  // OpenAPI 3.1 describes raw bytes only by the media type.
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
  // A change without parameters can be refused because of the resource's state.
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

export function ref(part: 'schemas' | 'parameters' | 'headers' | 'responses', name: string): { readonly $ref: string } {
  return { $ref: `#/components/${part}/${name}` }
}

const meanings: Readonly<Record<ErrorCode, { readonly description: string; readonly message: string }>> = {
  invalid_request: {
    description: 'The request is not valid; `details` names the fields.',
    message: 'name: is required',
  },
  unauthorized: {
    description: 'The API key is missing or not valid.',
    message: 'The API key is missing or not valid.',
  },
  forbidden: {
    description: 'The API key lacks the permission, or is bound to other projects.',
    message: 'This API key lacks the permission projects:write.',
  },
  not_found: {
    description: 'There is no such resource, or it belongs to another account.',
    message: 'There is no such resource, or you may not see it.',
  },
  rate_limit_exceeded: {
    description: 'Too many requests; `Retry-After` says how long to wait.',
    message: 'Too many requests.',
  },
  server_error: {
    description: 'Something went wrong on the server; its log has the details under the request id.',
    message: 'Something went wrong on the server.',
  },
}

const field = { type: 'string', description: 'The field by its path, such as `env_vars.PORT`.' }

const errorSchema = {
  type: 'object',
  description: 'The body of every error.',
  properties: {
    error: {
      type: 'object',
      properties: {
        code: { type: 'string', enum: Object.keys(errorStatuses) },
        message: { type: 'string', description: 'The cause and the remedy, for people.' },
        details: {
          type: 'object',
          properties: {
            field: { ...field, description: 'The first offending field, by its path.' },
            errors: {
              type: 'array',
              description: 'All offending fields.',
              items: {
                type: 'object',
                properties: { field, message: { type: 'string' } },
                required: ['field', 'message'],
              },
            },
          },
          additionalProperties: true,
        },
      },
      required: ['code', 'message', 'details'],
    },
  },
  required: ['error'],
}

function errorResponse(code: ErrorCode): unknown {
  const { description, message } = meanings[code]
  const details =
    code === 'invalid_request' ? { field: 'name', errors: [{ field: 'name', message: 'is required' }] } : {}
  return {
    description,
    headers: {
      'X-Request-Id': ref('headers', 'RequestId'),
      ...(code === 'rate_limit_exceeded' ? { 'Retry-After': ref('headers', 'RetryAfter') } : {}),
    },
    content: {
      'application/json': { schema: ref('schemas', 'Error'), example: { error: { code, message, details } } },
    },
  }
}

const header = (type: string, description: string) => ({ description, schema: { type } })
const cursor = schemaOf(pageQuery, 'input').properties?.['cursor']

export const components = {
  parameters: {
    limit: {
      name: 'limit',
      in: 'query',
      required: false,
      description: 'The most items on a page. Defaults to the maximum.',
      schema: { type: 'integer', minimum: 1, maximum: 1000, examples: [100] },
    },
    cursor: {
      name: 'cursor',
      in: 'query',
      required: false,
      description: 'The start of the page, taken from the `Link` header of the previous page.',
      schema: cursor,
    },
    IdempotencyKey: {
      name: 'Idempotency-Key',
      in: 'header',
      required: false,
      description:
        'For 24 hours, a repetition with the same key changes nothing and gets the first answer. The same key with another request is an error.',
      schema: { type: 'string', minLength: 1, maxLength: 255, examples: ['6b0f2f4e-8c0e-4a55-9a3e-2f0a2d6f6f10'] },
    },
  },
  headers: {
    RequestId: header('string', "The server's name for this request, which its log also contains."),
    RateLimitLimit: header('integer', 'Requests in a window of one hour.'),
    RateLimitRemaining: header('integer', 'Requests left in this window.'),
    RateLimitReset: header('integer', 'When the window ends, in Unix seconds.'),
    RetryAfter: header('integer', 'Seconds to wait.'),
    Link: header('string', 'The address of the next page, with `rel="next"` (RFC 8288); absent on the last one.'),
    Location: header('string', 'The path of what was created.'),
    IdempotentReplayed: header('string', '`true` on the answer to a repetition.'),
  },
  responses: Object.fromEntries((Object.keys(errorStatuses) as ErrorCode[]).map((code) => [code, errorResponse(code)])),
  schemas: { Error: errorSchema },
} as const

/**
 * Returns the ways to authenticate: an API key or, for the operations of signed-in users, both secrets of a session.
 */
export function securitySchemes(options: { readonly forUsers: boolean }): Readonly<Record<string, unknown>> {
  const apiKey = {
    type: 'http',
    scheme: 'bearer',
    description: 'An API key, `fl_…`, as `Authorization: Bearer <key>`.',
  }
  const session = { type: 'apiKey', in: 'cookie', name: '__Host-fairlead_session', description: 'A signed-in user.' }
  const sessionSecret = {
    type: 'apiKey',
    in: 'header',
    name: 'X-Fairlead-Session',
    description: 'The second secret of the session, from the answer to the sign-in. Both are needed.',
  }
  return options.forUsers ? { apiKey, session, sessionSecret } : { apiKey }
}
