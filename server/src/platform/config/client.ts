import { z } from 'zod'
import { configError, problemsOf } from './errors.ts'

/** How `fairlead api` reaches the server. */
export interface ClientConfig {
  /** Ends with `/v1`. */
  readonly baseUrl: string
  readonly apiKey: string
}

export const clientSettings = {
  FAIRLEAD_URL: z
    .string('must be set to the address of the server, such as https://fairlead.example.com')
    .refine((value) => URL.canParse(value) && isPlainHttp(new URL(value)), 'must be an http:// or https:// address')
    .transform((value) => `${value.replace(/\/+$/, '').replace(/\/v1$/, '')}/v1`),
  FAIRLEAD_API_KEY: z
    .string('must be set to an API key')
    .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII characters without spaces'),
}

const variables = z.object(clientSettings)

export function clientConfig(environment: Readonly<Record<string, string | undefined>>): ClientConfig {
  const parsed = variables.safeParse(environment)
  if (!parsed.success) throw configError(problemsOf(parsed.error))
  return { baseUrl: parsed.data.FAIRLEAD_URL, apiKey: parsed.data.FAIRLEAD_API_KEY }
}

function isPlainHttp({ protocol, search, hash, username, password }: URL): boolean {
  return /^https?:$/.test(protocol) && `${search}${hash}${username}${password}` === ''
}
