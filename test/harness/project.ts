import { expect } from 'vitest'
import { deployAndSettle, processesOf, settled } from './deployments.ts'
import { nodeApp, repository } from './repository.ts'
import { testServer } from './server.ts'

export type ServerWithProject = Awaited<ReturnType<typeof serverWithProject>>

/** Starts a server with one project, and a repository whose app answers `here`. Old releases have a second to drain. */
export async function serverWithProject() {
  await using cleanup = new AsyncDisposableStack()
  const source = cleanup.use(await repository(nodeApp('here')))
  const server = cleanup.use(await testServer({ FAIRLEAD_DRAIN_TIMEOUT: '1' }))
  const { client } = server
  const { id: projectId } = await client.projects.create({ body: { name: 'p', plan: 'enterprise' } })
  const owned = cleanup.move()
  return {
    server,
    client,
    projectId,
    source,
    paramsOf: (id: string) => ({ params: { project_id: projectId, id } }),
    create: (name: string, git_url: string) =>
      client.deployments.create({ params: { project_id: projectId }, body: { name, git_url } }),
    /** Deploys, and waits until the deployment is settled. */
    deploy: (name: string, git_url = source.url) => deployAndSettle(client, projectId, { name, git_url }),
    end: (id: string) => settled(client, projectId, id),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Resolves when no process of the release is left. */
export async function processesGone(id: string): Promise<void> {
  await expect.poll(() => processesOf(id)).toEqual([])
}
