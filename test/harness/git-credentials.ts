import { type TestServer, testServer } from './server.ts'

export type ServerWithRepository = Awaited<ReturnType<typeof serverWithRepository>>

/** Starts a server with one app whose repository does not exist. */
export async function serverWithRepository() {
  const server: TestServer = await testServer()
  const { id: project_id } = await server.client.projects.create({ body: { name: 'p' } })
  const git_url = 'https://127.0.0.1:1/team/shop.git'
  await server.client.deployments.create({ params: { project_id }, body: { name: 'shop', git_url } })
  const [app] = (await server.client.apps.list({ params: { project_id } })).apps
  return {
    server,
    client: server.client,
    git_url,
    params: { project_id, app_id: app?.id ?? '' },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}
