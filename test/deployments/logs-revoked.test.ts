import { afterAll, beforeAll, expect, it } from 'vitest'
import { deployAndSettle } from '../harness/deployments.ts'
import { followLog } from '../harness/logs.ts'
import { repository } from '../harness/repository.ts'
import { type TestServer, testServer } from '../harness/server.ts'

let server: TestServer
let app: { readonly projectId: string; readonly id: string; readonly url: string }
let source: Awaited<ReturnType<typeof repository>>
beforeAll(async () => {
  server = await testServer()
  source = await repository({
    Procfile: 'web: node server.js',
    'server.js': `require('node:http').createServer((request, response) => {
  console.log('asked for ' + request.url)
  response.end()
}).listen(process.env.PORT)`,
  })
  const projectId = (await server.client.projects.create({ body: { name: 'p' } })).id
  app = { projectId, ...(await deployAndSettle(server.client, projectId, { name: 'web', git_url: source.url })) }
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await source[Symbol.asyncDispose]()
})

type Log = Awaited<ReturnType<typeof followLog>>

/** Follows until the app's line is there. */
const seeing = async (log: Log, path: string) => {
  await fetch(app.url + path)
  await log.until(({ data }) => data['text'] === `asked for ${path}`)
}

/** The stream ends by itself, although the app runs on. */
const ends = (log: Log) => expect(log.until(() => false)).rejects.toThrow('the stream has ended')

it('ends a log that is followed when its key is revoked', async () => {
  const user = await server.signIn()
  const { id, key } = await user.client.apiKeys.create({ body: { name: 'reader', preset: 'read' } })
  const log = await followLog(server.clientFor(key), app.projectId, app.id)
  await seeing(log, '/of-a-key')
  await user.client.apiKeys.delete({ params: { id } })
  await ends(log)
})

it('ends a log that is followed when the user signs out', async () => {
  const user = await server.signIn()
  const log = await followLog(user.client, app.projectId, app.id)
  await seeing(log, '/of-a-session')
  await user.dashboard.session.delete()
  await ends(log)
})

it('goes on for a key that was rotated with an overlap', async () => {
  const user = await server.signIn()
  const { id, key } = await user.client.apiKeys.create({ body: { name: 'reader', preset: 'read' } })
  const log = await followLog(server.clientFor(key), app.projectId, app.id)
  await seeing(log, '/before')
  await user.client.apiKeys.rotate({ params: { id }, body: {} })
  await seeing(log, '/after')
  log.close()
})
