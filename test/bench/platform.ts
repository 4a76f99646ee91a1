import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { BodyInput, Client, ResponseBody } from '@fairlead/server/client'
import { deployAndSettle } from '../harness/deployments.ts'
import { fairlead, type ServerProcess, serverProcess } from '../harness/process.ts'
import { temporaryDirectory } from '../harness/temporary.ts'
import { inTime } from './deadline.ts'

export interface Platform extends AsyncDisposable {
  readonly server: ServerProcess
  readonly client: Client
  readonly apiKey: string
  readonly projectId: string
  readonly dataDirectory: string
  /** Deploys an app, and resolves when it runs; rejects on any other end. */
  deploy(body: BodyInput<'deployments.create'>, projectId?: string): Promise<ResponseBody<'deployments.get'>>
}

/**
 * Starts a server as users run it, with its own PostgreSQL, and creates a project whose plan does not limit the
 * measurements.
 *
 * @param signal ends all of its waits
 */
export async function startPlatform(
  environment: Readonly<Record<string, string>>,
  signal: AbortSignal = new AbortController().signal,
): Promise<Platform> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const dataDirectory = join(directory.path, 'data')
  const apiKey = await inTime('data directory', signal, newData(dataDirectory))
  const started = serverProcess(dataDirectory, environment)
  cleanup.defer(async () => (await started.catch(() => null))?.[Symbol.asyncDispose]())
  const server = await inTime('server that is ready', signal, started)
  const client = server.clientFor(apiKey)
  const project = await client.projects.create({ body: { name: 'Bench', plan: 'enterprise' } })
  const owned = cleanup.move()
  return {
    server: {
      ...server,
      waitForLog: (matches) => inTime('line in the log of the server', signal, server.waitForLog(matches)),
    },
    client,
    apiKey,
    projectId: project.id,
    dataDirectory,
    async deploy(body, projectId = project.id) {
      signal.throwIfAborted()
      const made = await inTime('end of a deployment', signal, deployAndSettle(client, projectId, body))
      if (made.status !== 'running') throw new Error(`the app ${body.name} is ${made.status}: ${made.failure?.message}`)
      return made
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

interface PreparedData {
  readonly directory: string
  readonly apiKey: string
}

// A benchmark sets another folder for its files.
const parent = tmpdir()
/** On a busy machine. */
const prepareMs = 300_000
let prepared: Promise<PreparedData> | undefined

/**
 * Makes a data directory with an API key, and resolves to the key. The directory is a copy, because making a new one
 * takes seconds.
 */
async function newData(dataDirectory: string): Promise<string> {
  prepared ??= prepareData().catch((error: unknown) => {
    // The next benchmark tries again.
    prepared = undefined
    throw error
  })
  const { directory, apiKey } = await prepared
  await promisify(execFile)('cp', ['-a', directory, dataDirectory])
  return apiKey
}

async function prepareData(): Promise<PreparedData> {
  const folder = await temporaryDirectory(parent)
  process.once('exit', () => rmSync(folder.path, { recursive: true, force: true }))
  const directory = join(folder.path, 'data')
  const args = ['keys', 'create', '--new', '--name', 'bench', '--data-dir', directory]
  const made = await fairlead(args, {}, { timeoutMs: prepareMs })
  if (made.code !== 0) throw new Error(`the API key could not be created: ${made.stderr}`)
  return { directory, apiKey: made.stdout.trim() }
}
