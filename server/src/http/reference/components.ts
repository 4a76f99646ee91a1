import { type ErrorCode, errorStatuses } from '../../contract/errors.ts'
import { pageQuery } from '../page.ts'
import { schemaOf } from './schemas.ts'

/** Returns a reference to one of the document's components. */
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

/** The components that operations share. */
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

/** Returns the ways to authenticate: an API key or, for the operations of signed-in users, both secrets of a session. */
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
