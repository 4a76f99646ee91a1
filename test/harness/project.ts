import { expect, inject } from 'vitest'
import { newId } from '../../server/src/platform/ids.ts'
import { deployAndSettle, processesOf, settled } from './deployments.ts'
import { nodeApp, repository } from './repository.ts'
import { ownServer, type TestServer, testServer } from './server.ts'

export type ServerWithProject = Awaited<ReturnType<typeof serverWithProject>>
export type OwnServerWithProject = Awaited<ReturnType<typeof ownServerWithProject>>

/** Returns an account on the shared server with one project, and a repository whose app answers `here`. */
export async function serverWithProject() {
  return inject('sharedServer') === null ? ownServerWithProject() : projectOn(await testServer())
}

/** Starts a server with a project. Old releases have a second to drain unless `settings` say otherwise. */
export async function ownServerWithProject(
  settings: Readonly<Record<string, string>> = {},
  more: Parameters<typeof ownServer>[1] = {},
) {
  const environment: Record<string, string> = { FAIRLEAD_DRAIN_TIMEOUT: '1', ...settings }
  return {
    /** The settings of the server. Its next start reads them again. */
    environment,
    ...(await projectOn(await ownServer(environment, more))),
  }
}

async function projectOn<Server extends TestServer>(server: Server) {
  await using cleanup = new AsyncDisposableStack()
  cleanup.use(server)
  const source = cleanup.use(await repository(nodeApp('here')))
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
    deploy: (name: string, git_url = source.url) => deployAndSettle(client, projectId, { name, git_url }),
    /** Makes an app without a release, and returns its id. Many operations need no deployment. */
    async appRow() {
      const id = newId('app')
      const values = [id, projectId, `${id}.apps.example.net`]
      await server.database.query('insert into apps (id, project_id, name, hostname) values ($1, $2, $1, $3)', values)
      return id
    },
    async appNamed(name: string) {
      const { apps } = await client.apps.list({ params: { project_id: projectId } })
      const app = apps.find((each) => each.name === name)
      if (app === undefined) throw new Error(`there is no app ${name}`)
      return app
    },
    end: (id: string) => settled(client, projectId, id),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Resolves when all processes of the release have ended. */
export async function processesGone(id: string): Promise<void> {
  await expect.poll(() => processesOf(id)).toEqual([])
}
