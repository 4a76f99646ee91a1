import { chmod, mkdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Command, Option } from 'commander'
import { z } from 'zod'
import { type Client, createClient } from '../../contract/client.ts'
import { ApiError } from '../../contract/errors.ts'
import { type CiJob, type ClientConfig, loadClientSettings, readClientConfig } from '../../platform/config/client.ts'
import { readOptional } from '../../platform/files.ts'
import { withCleanUp } from './clean-up.ts'
import { CommandError } from './command-error.ts'
import { explain } from './errors.ts'
import { withJobKey } from './job-key.ts'
import { say, telling } from './wait.ts'

export interface Connection {
  /** The address of the API, which ends with `/v1`. */
  readonly baseUrl: string
  readonly client: Client
  /** The CI job whose key is used; null outside a CI job. */
  readonly job: CiJob | null
  readonly lastResponse: () => Response | undefined
}

export interface Wanted {
  readonly dataDir?: string | undefined
  readonly project?: string | undefined
}

export async function withServer<T>(
  local: LocalServer | undefined,
  wanted: Wanted,
  work: (connection: Connection) => Promise<T>,
): Promise<T> {
  const { job } = loadClientSettings()
  if (job !== null && wanted.dataDir === undefined) {
    return withJobKey(job, wanted.project, (config) => work(connect(config, job)))
  }
  const { config, loginFile } = await findServer(local, wanted.dataDir)
  return work(connect(config, null)).catch((error: unknown) => {
    throw explain(error, { ...config, loginFile })
  })
}

/** The time that a server may leave a request and its repetitions unanswered. */
const patienceMs = 5 * 60_000

function connect(config: ClientConfig & { readonly fetch?: typeof fetch }, job: CiJob | null): Connection {
  const send = config.fetch ?? fetch
  const address = config.baseUrl.replace(/\/v1$/, '')
  let last: Response | undefined
  let silentSince: number | undefined
  const client = createClient({
    ...config,
    async fetch(target, init) {
      silentSince ??= performance.now()
      const isUpload = init?.body instanceof Blob || init?.body instanceof FormData
      const what = isUpload ? `sending to ${address}` : `waiting for an answer of ${address}`
      last = await telling(what, () => send(target, init))
      silentSince = undefined
      return last
    },
    onRetry(error) {
      // An attempt without an answer may take minutes itself.
      if (silentSince !== undefined && performance.now() - silentSince > patienceMs) throw error
      if (error instanceof ApiError && 'retry_after' in error.details) say(`${error.message} Trying again.`)
    },
  })
  return { baseUrl: config.baseUrl, client, job, lastResponse: () => last }
}

interface Found {
  readonly config: ClientConfig
  /** The file that holds the key; undefined without one. */
  readonly loginFile: string | undefined
}

/**
 * Finds the server by the option, the environment, `fairlead login`, and last as this user's server on this machine,
 * whose key is stored as by a login.
 */
async function findServer(local: LocalServer | undefined, dataDir: string | undefined): Promise<Found> {
  const { given, loginFile, hasDataDirectory } = loadClientSettings()
  if (dataDir === undefined && given !== null) return { config: given, loginFile: undefined }
  const kept = await readLogin(loginFile)
  const isNamed = local !== undefined && (dataDir !== undefined || hasDataDirectory)
  if (!isNamed && kept !== undefined) return sayUsed({ config: kept, loginFile })
  const login = { kept: () => readLogin(loginFile), keep: storeLogin }
  const config = await local?.logIn({ dataDir, hasDataDirectory, ...login })
  if (config === undefined) throw isNamed ? notRunning(dataDir) : noServer(local)
  return { config, loginFile }
}

/** Prints the chosen server, unless an option or the environment names it. */
function sayUsed(found: Found): Found {
  say(`using the server at ${found.config.baseUrl.replace(/\/v1$/, '')} (fairlead login)`)
  return found
}

const notRunning = (dataDir: string | undefined): CommandError =>
  new CommandError(
    dataDir === undefined
      ? 'no server that is ready runs with the data directory in FAIRLEAD_DATA_DIR. Start it (fairlead serve), or unset the variable.'
      : `no server that is ready runs with the data directory ${dataDir}. Start it: fairlead serve --data-dir ${dataDir}`,
  )

const noServer = (local: LocalServer | undefined): CommandError =>
  new CommandError(
    [
      `no server is known. Log in to one${local === undefined ? ':' : ', or start one on this machine:'}`,
      '  fairlead login https://fairlead.example.com   lets you approve this machine in the dashboard',
      ...(local === undefined
        ? []
        : [
            '  fairlead login --data-dir FOLDER              makes a key of a server that runs on this machine',
            '  fairlead serve                                runs a server',
          ]),
      'FAIRLEAD_URL and FAIRLEAD_API_KEY name a server for one command.',
    ].join('\n'),
  )

const login = z.object({ url: z.string(), api_key: z.string() })

/** Reads the server of `fairlead login`. Throws a `CommandError` when other users may read its key. */
async function readLogin(path: string): Promise<ClientConfig | undefined> {
  const text = await readOptional(path)
  if (text === undefined) return undefined
  if (((await stat(path)).mode & 0o077) !== 0) {
    throw new CommandError(`other users may read ${path}, which holds an API key. Run chmod 600 ${path}`)
  }
  try {
    const { url, api_key } = login.parse(JSON.parse(text))
    return readClientConfig(url, api_key)
  } catch {
    throw new CommandError(`${path} cannot be read. Run fairlead login again.`)
  }
}

/** Stores the address and the key of a server in a file that only this user can read. Returns its path. */
export async function storeLogin({ baseUrl, apiKey }: ClientConfig): Promise<string> {
  const { loginFile: path } = loadClientSettings()
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const temporary = `${path}.${process.pid}`
  const content = { url: baseUrl.replace(/\/v1$/, ''), api_key: apiKey }
  return withCleanUp(
    () => rm(temporary, { force: true }),
    async () => {
      await writeFile(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 })
      await chmod(temporary, 0o600)
      await rename(temporary, path)
      return path
    },
  )
}

/** The server on this machine. Only the server's own command line can find it; `@fairlead/cli` cannot. */
export interface LocalServer {
  readonly option: () => Option
  /**
   * Finds this user's server on this machine. Creates and stores a key, unless the stored key is from that server.
   * Resolves to `undefined` without a server. Concurrent commands create one key.
   */
  readonly logIn: (given: {
    readonly dataDir: string | undefined
    readonly hasDataDirectory: boolean
    readonly kept: () => Promise<ClientConfig | undefined>
    readonly keep: (config: ClientConfig) => Promise<unknown>
  }) => Promise<ClientConfig | undefined>
}

export function withLocalOption(command: Command, local: LocalServer | undefined): Command {
  return local === undefined ? command : command.addOption(local.option())
}
