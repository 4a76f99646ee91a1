import { deployAndSettle } from '../deployments.ts'
import { gitServer } from '../git-server.ts'
import { repository } from '../repository.ts'
import type { Tenant } from './server.ts'

/** A running app that does what the test tells it. */
export interface HostileApp {
  readonly id: string
  readonly url: string
  /** Runs the body of an asynchronous function in the app, which has `require`; resolves with its result. */
  run(body: string): Promise<unknown>
}

const server = `const work = Object.getPrototypeOf(async () => {}).constructor
require('node:http').createServer(async (request, response) => {
  let body = ''
  for await (const chunk of request) body += chunk
  if (body === '') return response.end('app')
  const answer = await new work('require', body)(require).catch((error) => ({ error: String(error.cause?.code ?? error.code ?? error) }))
  response.end(JSON.stringify(answer ?? null))
}).listen(process.env.PORT)`

/** Deploys a hostile app. By default the app itself listens. */
export async function hostileApp(
  { client, project }: Tenant,
  name: string,
  files: Readonly<Record<string, string>> = { 'server.js': server },
): Promise<HostileApp> {
  await using source = await repository({
    'package.json': JSON.stringify({ name: 'app', scripts: { start: 'node server.js' } }),
    ...files,
  })
  await using git = await gitServer(source)
  const { id, status, url, failure } = await deployAndSettle(client, project, { name, git_url: git.url })
  if (status !== 'running' || url === null) throw new Error(`${name} is ${status}: ${failure?.message}`)
  return {
    id,
    url,
    run: async (body) => (await fetch(url, { method: 'POST', body })).json(),
  }
}
