import { afterAll, beforeAll, expect, it } from 'vitest'
import { deployAndSettle } from '../../harness/deployments.ts'
import { followLog } from '../../harness/logs.ts'
import { repository } from '../../harness/repository.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

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

/** Calls the app and follows its log until that request's line arrives. */
const requestAndFollow = async (log: Log, path: string) => {
  await fetch(app.url + path)
  await log.until(({ data }) => data['text'] === `asked for ${path}`)
}

/** Checks that the stream ends by itself, although the app keeps running. */
const expectEnd = (log: Log) => expect(log.until(() => false)).rejects.toThrow('the stream has ended')

it('a followed log ends when its key is revoked', async () => {
  const user = await server.signIn()
  const { id, key } = await user.client.apiKeys.create({ body: { name: 'reader', preset: 'read' } })
  const log = await followLog(server.clientFor(key), app.projectId, app.id)
  await requestAndFollow(log, '/of-a-key')
  await user.client.apiKeys.delete({ params: { id } })
  await expectEnd(log)
})

it('a followed log ends when the user signs out', async () => {
  const user = await server.signIn()
  const log = await followLog(user.client, app.projectId, app.id)
  await requestAndFollow(log, '/of-a-session')
  await user.dashboard.session.delete()
  await expectEnd(log)
})

it('a followed log continues when its key is rotated with an overlap', async () => {
  const user = await server.signIn()
  const { id, key } = await user.client.apiKeys.create({ body: { name: 'reader', preset: 'read' } })
  const log = await followLog(server.clientFor(key), app.projectId, app.id)
  await requestAndFollow(log, '/before')
  await user.client.apiKeys.rotate({ params: { id }, body: {} })
  await requestAndFollow(log, '/after')
  log.close()
})
