import { expect, it } from 'vitest'
import { deployAndSettle, processesOf } from '../../../../harness/deployments.ts'
import { repository } from '../../../../harness/repository.ts'
import { ownServer } from '../../../../harness/server.ts'

/** Takes longer to answer than the server waits between two looks at its apps, but only who comes through the gateway. */
const slowBehindGateway = `require('node:http').createServer((request, response) => {
  setTimeout(() => response.end('new'), request.headers['x-forwarded-for'] === undefined ? 0 : 2500)
}).listen(process.env.PORT)`

const endless = `require('node:http').createServer((request, response) => {
  if (request.url !== '/endless') return response.end('old')
  setInterval(() => response.write('.'), 10)
}).listen(process.env.PORT)`

const appOf = (server: string) => ({
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': server,
})

it('lets a release finish its requests that is looked at while another takes its address', async () => {
  await using server = await ownServer({ FAIRLEAD_DRAIN_TIMEOUT: '60' })
  const project = await server.client.projects.create({ body: { name: 'p' } })
  await using source = await repository(appOf(endless))
  const deploy = () => deployAndSettle(server.client, project.id, { name: 'web', git_url: source.url })
  const old = await deploy()
  const before = await processesOf(old.id)
  const cut = new AbortController()
  const { body } = await fetch(`${old.url}/endless`, { signal: cut.signal })
  const reader = body?.getReader()
  await source.commit(appOf(slowBehindGateway))
  expect((await deploy()).status).toBe('running')

  const { length } = server.log
  // Time enough for the server to do what it has made up its mind to.
  for (let read = 0; read < 100; read++) expect((await reader?.read())?.done).toBe(false)
  expect(await processesOf(old.id)).toEqual(before)
  expect(server.log.slice(length).map((line) => line['msg'])).not.toContain('starting the release again')
  cut.abort()
})
