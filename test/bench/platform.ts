import { join } from 'node:path'
import type { Client } from '@fairlead/server/client'
import { fairlead, type ServerProcess, serverProcess } from '../harness/process.ts'
import { temporaryDirectory } from '../harness/temporary.ts'

export interface Platform extends AsyncDisposable {
  readonly server: ServerProcess
  readonly client: Client
  readonly apiKey: string
  readonly projectId: string
  readonly dataDirectory: string
}

/** Starts a server as users run it, with its own PostgreSQL, and creates a project whose plan does not limit the measurements. */
export async function startPlatform(environment: Readonly<Record<string, string>>): Promise<Platform> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const dataDirectory = join(directory.path, 'data')
  const made = await fairlead(['keys', 'create', '--new', '--name', 'bench', '--data-dir', dataDirectory])
  if (made.code !== 0) throw new Error(`the API key could not be created: ${made.stderr}`)
  const server = cleanup.use(await serverProcess(dataDirectory, environment))
  const apiKey = made.stdout.trim()
  const client = server.clientFor(apiKey)
  const project = await client.projects.create({ body: { name: 'Bench', plan: 'enterprise' } })
  const owned = cleanup.move()
  return {
    server,
    client,
    apiKey,
    projectId: project.id,
    dataDirectory,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
