import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { z } from 'zod'
import { configError, problemsOf } from './errors.ts'

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

/** Commands that use a server's API need no other configuration. */
export interface ClientSettings {
  /** The server and the key that the environment names; null if it names none. */
  readonly given: ClientConfig | null
  /** The CI job that runs the command, when the environment names a server without a key. */
  readonly job: (CiJob & { readonly baseUrl: string }) | null
  /** `fairlead login` keeps a server in this file. */
  readonly loginFile: string
  /** True when the environment names a data directory. */
  readonly hasDataDirectory: boolean
}

/**
 * Reads the server's address and the API key, or the CI job when there is no key.
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
 * Checks an address and a key that do not come from the environment.
 *
 * @throws ConfigError
 */
export function readClientConfig(url: unknown, apiKey: unknown): ClientConfig {
  return clientConfig({ FAIRLEAD_URL: url as string, FAIRLEAD_API_KEY: apiKey as string })
}

/**
 * Returns the address of the API, which ends with `/v1`.
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

function loginFile(environment: Environment): string {
  const folder = environment['XDG_CONFIG_HOME'] ?? ''
  // The XDG Base Directory Specification ignores relative paths.
  return join(isAbsolute(folder) ? folder : join(homedir(), '.config'), 'fairlead', 'config.json')
}

function isPlainHttp({ protocol, search, hash, username, password }: URL): boolean {
  return /^https?:$/.test(protocol) && `${search}${hash}${username}${password}` === ''
}

/** Returns the command's environment, for files that refer to its variables. */
export const variablesOfEnvironment = (): Environment => process.env

export interface CiJob {
  readonly ci: string
  /** The branch that the job builds; null for a tag, or where the CI does not say. */
  readonly branch: string | null
  /** The name of the repository, without its owner; null where the CI does not say. */
  readonly repository: string | null
  readonly tokens: CiTokens
}

export type CiTokens =
  /** Tokens in the job's variables. Each token is accepted once. `missing` says how to get a token. */
  | { readonly kind: 'given'; readonly tokens: readonly string[]; readonly missing: string }
  /** An address that answers with a token. `missing` says how to get the address. */
  | { readonly kind: 'request'; readonly url: string; readonly bearer: string; readonly missing: string }
  /** A program of the CI that prints a token. */
  | { readonly kind: 'program'; readonly program: string; readonly arguments: (audience: string) => readonly string[] }

/** A GitLab job names these in `id_tokens`. Each token is accepted once, so long builds need several. */
export const tokenVariables = ['FAIRLEAD_ID_TOKEN', 'FAIRLEAD_ID_TOKEN_2', 'FAIRLEAD_ID_TOKEN_3', 'FAIRLEAD_ID_TOKEN_4']

/** Recognizes a CI by its variables; returns null outside a known CI. */
function ciJob(environment: Environment): CiJob | null {
  if (environment['GITLAB_CI'] === 'true') return gitlab(environment)
  if (environment['BUILDKITE'] === 'true') return buildkite(environment)
  if (environment['CIRCLECI'] === 'true') return circle(environment)
  // Forgejo has the variables of GitHub's runner, too.
  return environment['GITHUB_ACTIONS'] === 'true' || environment['FORGEJO_ACTIONS'] === 'true'
    ? actions(environment)
    : null
}

function gitlab(environment: Environment): CiJob {
  return {
    ci: 'GitLab CI',
    // Pipelines of merge requests have no CI_COMMIT_BRANCH.
    branch: environment['CI_COMMIT_BRANCH'] || environment['CI_MERGE_REQUEST_SOURCE_BRANCH_NAME'] || null,
    repository: environment['CI_PROJECT_NAME'] || null,
    tokens: {
      kind: 'given',
      tokens: tokenVariables.flatMap((name) => environment[name] || []),
      missing: 'Give the job id_tokens: FAIRLEAD_ID_TOKEN: aud: followed by the address of the server',
    },
  }
}

function buildkite(environment: Environment): CiJob {
  return {
    ci: 'Buildkite',
    branch: environment['BUILDKITE_TAG'] ? null : environment['BUILDKITE_BRANCH'] || null,
    repository: environment['BUILDKITE_PIPELINE_SLUG'] || null,
    tokens: {
      kind: 'program',
      program: 'buildkite-agent',
      // Trust rules can require the pipeline id, which tokens contain only on request.
      arguments: (audience) => ['oidc', 'request-token', '--audience', audience, '--claim', 'pipeline_id'],
    },
  }
}

/** Tokens in CircleCI's variables have the organization as their audience, so the job must request another. */
function circle(environment: Environment): CiJob {
  return {
    ci: 'CircleCI',
    branch: environment['CIRCLE_BRANCH'] || null,
    repository: environment['CIRCLE_PROJECT_REPONAME'] || null,
    tokens: {
      kind: 'program',
      program: 'circleci',
      arguments: (audience) => ['run', 'oidc', 'get', '--claims', JSON.stringify({ aud: audience })],
    },
  }
}

function actions(environment: Environment): CiJob {
  const isForgejo = environment['FORGEJO_ACTIONS'] === 'true'
  const ref = environment['GITHUB_HEAD_REF'] || environment['GITHUB_REF_NAME'] || null
  return {
    ci: isForgejo ? 'Forgejo Actions' : 'GitHub Actions',
    branch: environment['GITHUB_REF_TYPE'] === 'tag' ? null : ref,
    repository: environment['GITHUB_REPOSITORY']?.split('/').at(-1) || null,
    tokens: {
      kind: 'request',
      url: environment['ACTIONS_ID_TOKEN_REQUEST_URL'] ?? '',
      bearer: environment['ACTIONS_ID_TOKEN_REQUEST_TOKEN'] ?? '',
      missing: isForgejo
        ? 'Give the workflow enable-openid-connect: true'
        : 'Give the job permissions: id-token: write',
    },
  }
}
