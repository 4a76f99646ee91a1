import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { z } from 'zod'
import { type CiJob, ciJob } from './ci.ts'
import { configError, problemsOf } from './errors.ts'

/** How the commands of users reach a server. */
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

type Environment = Readonly<Record<string, string | undefined>>

/** The settings of commands that use a server's API. They need nothing else of the configuration. */
export interface ClientSettings {
  /** The server that the environment names with a key, if it does. */
  readonly given: ClientConfig | null
  /** The job of a CI that runs the command, with the address of the server that it names without a key. */
  readonly job: (CiJob & { readonly baseUrl: string }) | null
  /** The path of the file in which `fairlead login` keeps a server. */
  readonly loginFile: string
  /** True when the environment names a data directory. */
  readonly hasDataDirectory: boolean
}

/**
 * Reads the server's address and the API key, or else the job of a CI that has no key.
 *
 * @throws ConfigError that names the wrong variables, without their values
 */
export function loadClientSettings(environment: Environment = process.env): ClientSettings {
  const job = environment['FAIRLEAD_API_KEY'] ? null : ciJob(environment)
  const named = job !== null && environment['FAIRLEAD_URL'] !== undefined
  return {
    given: !named && namesServer(environment) ? clientConfig(environment) : null,
    job: named ? { ...job, baseUrl: readAddress(environment['FAIRLEAD_URL']) } : null,
    loginFile: loginFile(environment),
    hasDataDirectory: environment['FAIRLEAD_DATA_DIR'] !== undefined,
  }
}

/**
 * Checks an address and a key that were given in another way.
 *
 * @throws ConfigError
 */
export function readClientConfig(url: unknown, apiKey: unknown): ClientConfig {
  return clientConfig({ FAIRLEAD_URL: url as string, FAIRLEAD_API_KEY: apiKey as string })
}

/**
 * Checks the address of a server. Returns that of its API, which ends with `/v1`.
 *
 * @throws ConfigError
 */
export function readAddress(url: unknown): string {
  const parsed = z.object({ FAIRLEAD_URL: clientSettings.FAIRLEAD_URL }).safeParse({ FAIRLEAD_URL: url })
  if (!parsed.success) throw configError(problemsOf(parsed.error))
  return parsed.data.FAIRLEAD_URL
}

function clientConfig(environment: Environment): ClientConfig {
  const parsed = z.object(clientSettings).safeParse(environment)
  if (!parsed.success) throw configError(problemsOf(parsed.error))
  return { baseUrl: parsed.data.FAIRLEAD_URL, apiKey: parsed.data.FAIRLEAD_API_KEY }
}

/** True when the environment says how to reach a server, even if wrongly. */
function namesServer(environment: Environment): boolean {
  return Object.keys(clientSettings).some((name) => environment[name] !== undefined)
}

/** Returns the path of the file in which `fairlead login` keeps the address and the key of a server. */
function loginFile(environment: Environment): string {
  const folder = environment['XDG_CONFIG_HOME'] ?? ''
  // The XDG Base Directory Specification ignores relative paths.
  return join(isAbsolute(folder) ? folder : join(homedir(), '.config'), 'fairlead', 'config.json')
}

function isPlainHttp({ protocol, search, hash, username, password }: URL): boolean {
  return /^https?:$/.test(protocol) && `${search}${hash}${username}${password}` === ''
}

/** Returns the variables of the command's environment, for files that name some. */
export const variablesOfEnvironment = (): Environment => process.env
