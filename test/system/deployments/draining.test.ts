import { afterAll, beforeAll, expect, it } from 'vitest'
import { processesOf } from '../../harness/deployments.ts'
import { type OwnServerWithProject, ownServerWithProject } from '../../harness/project.ts'
import { repository } from '../../harness/repository.ts'

let given: OwnServerWithProject
beforeAll(async () => {
  given = await ownServerWithProject({ FAIRLEAD_DRAIN_TIMEOUT: '60' })
})
afterAll(() => given?.[Symbol.asyncDispose]())

const appOf = (server: string) => ({
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': server,
})

const slow = (text: string) =>
  appOf(`let open
require('node:http').createServer((request, response) => {
  if (request.url === '/open') return (open = response).write('begun')
  open?.end(', and ended')
  response.end(${JSON.stringify(text)})
}).listen(process.env.PORT)`)

/** Answers the gateway's requests later than the server's next check of its apps, and other requests at once. */
const slowBehindGateway = `require('node:http').createServer((request, response) => {
  setTimeout(() => response.end('new'), request.headers['x-forwarded-for'] === undefined ? 0 : 2500)
}).listen(process.env.PORT)`

const endless = `require('node:http').createServer((request, response) => {
  if (request.url !== '/endless') return response.end('old')
  setInterval(() => response.write('.'), 10)
}).listen(process.env.PORT)`

it('a rollback routes back to a release that is still draining without starting it again', async () => {
  await using source = await repository(slow('one'))
  const one = await given.deploy('soon', source.url)
  const open = await fetch(`${one.url}/open`)
  await source.commit(slow('two'))
  await given.deploy('soon', source.url)
  const before = await processesOf(one.id)
  expect(before).not.toEqual([])
  await given.client.deployments.rollback(given.paramsOf(one.id))
  expect((await given.end(one.id)).status).toBe('running')
  expect(await (await fetch(one.url)).text()).toBe('one')
  expect(await processesOf(one.id)).toEqual(before)
  expect(await open.text()).toBe('begun, and ended')
})

it('a release that is checked while another takes its address finishes its requests', async () => {
  await using source = await repository(appOf(endless))
  const old = await given.deploy('web', source.url)
  const before = await processesOf(old.id)
  const cut = new AbortController()
  const { body } = await fetch(`${old.url}/endless`, { signal: cut.signal })
  const reader = body?.getReader()
  await source.commit(appOf(slowBehindGateway))
  expect((await given.deploy('web', source.url)).status).toBe('running')

  const { length } = given.server.log
  // Enough time for the server to finish its decision.
  for (let read = 0; read < 100; read++) expect((await reader?.read())?.done).toBe(false)
  expect(await processesOf(old.id)).toEqual(before)
  expect(given.server.log.slice(length).map((line) => line['msg'])).not.toContain('starting the release again')
  cut.abort()
})
