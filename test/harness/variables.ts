import type { BodyInput } from '../../server/src/contract/client.ts'
import { deployAndSettle, settled } from './deployments.ts'
import { repository } from './repository.ts'
import { testServer } from './server.ts'

type Given = Partial<BodyInput<'deployments.create'>>

export type ServerWithVariables = Awaited<ReturnType<typeof serverWithVariables>>

/** Returns an account with one project, and a repository whose app answers with its variables and the text of `version`. */
export async function serverWithVariables() {
  await using cleanup = new AsyncDisposableStack()
  const source = cleanup.use(
    await repository({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': `const version = require('node:fs').readFileSync('version', 'utf8')
console.log('my variables: ' + JSON.stringify(Object.entries(process.env).filter(([name]) => name.startsWith('OWN_'))))
require('node:http')
  .createServer((request, response) => response.end(JSON.stringify({ ...process.env, version })))
  .listen(process.env.PORT)`,
      version: 'first',
    }),
  )
  const server = cleanup.use(await testServer())
  const { client } = server
  const { id: projectId } = await client.projects.create({ body: { name: 'p', plan: 'enterprise' } })
  const owned = cleanup.move()
  const appNamed = async (name: string) => {
    const { apps } = await client.apps.list({ params: { project_id: projectId } })
    const app = apps.find((each) => each.name === name)
    if (app === undefined) throw new Error(`there is no app ${name}`)
    return { params: { project_id: projectId, app_id: app.id }, id: app.id, url: app.url }
  }
  const end = (id: string) => settled(client, projectId, id)
  return {
    server,
    client,
    projectId,
    source,
    appNamed,
    end,
    deploy: (name: string, given: Given = {}) =>
      deployAndSettle(client, projectId, { name, git_url: source.url, ...given }),
    /** Deploys an app and returns it. */
    async app(name: string, given: Given = {}) {
      await deployAndSettle(client, projectId, { name, git_url: source.url, ...given })
      return appNamed(name)
    },
    /** Deploys an app, makes a database that is linked to it, and returns the app. */
    async linkedApp(name: string) {
      await deployAndSettle(client, projectId, { name, git_url: source.url })
      const app = await appNamed(name)
      const body = { name: `database of ${name}`, link: { app: app.id } }
      await client.databases.create({ params: { project_id: projectId }, body })
      return app
    },
    /** Applies the variables of an app, and returns the settled deployment. */
    async apply({ id }: { readonly id: string }) {
      return end((await client.apps.apply({ params: { project_id: projectId, id }, body: {} })).id)
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Returns the variables that a test set for an app, as the app sees them, and the version of its code. */
export async function seenBy({ url }: { readonly url: string }): Promise<Record<string, string>> {
  const environment = (await (await fetch(url)).json()) as Record<string, string>
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => name.startsWith('OWN_') || name === 'version'),
  )
}
