import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { commandHere } from '../../harness/command-here.ts'
import { query } from '../../harness/databases.ts'
import { repository } from '../../harness/repository.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server?.[Symbol.asyncDispose]())

const compose = `
services:
  web:
    build: .
    environment:
      STORE: postgres://shop:secret@db/shop
      WHO: \${WHO}
    scale: 2
  worker:
    build: { context: ./worker, dockerfile: Worker.dockerfile }
  db:
    image: postgres:9
`
const app = {
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': `const { STORE, WHO } = process.env
require('node:http').createServer((_, response) => response.end(JSON.stringify({ STORE, WHO }))).listen(process.env.PORT)`,
}

const idOf = async (project: string) =>
  (await server.client.projects.list()).projects.find(({ name }) => name === project)?.id ?? ''

it('import compose creates apps and databases once, reports what it omits, and resumes when it is run again', async () => {
  await server.client.projects.create({ body: { name: 'Shop', plan: 'enterprise' } })
  await using source = await repository({ 'compose.yaml': compose, ...app })
  const environment = { FAIRLEAD_URL: server.url, FAIRLEAD_API_KEY: server.apiKey, WHO: 'me' }
  const run = (...args: string[]) =>
    commandHere(['import', 'compose', source.path, '--project', 'Shop', ...args], environment)

  const dry = await run('--dry-run')
  expect(dry).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('database db, PostgreSQL 9\napp web, of the folder .'),
  })
  const params = { project_id: await idOf('Shop') }
  expect((await server.client.databases.list({ params })).databases).toEqual([])

  const first = await run()
  // The worker needs a fairlead.json.
  expect(first).toMatchObject({ code: 1, stderr: expect.stringContaining('this server has no PostgreSQL 9') })
  expect(first.stderr).toContain('"path": "Worker.dockerfile"')
  expect(first.stdout).toMatch(/^http\S+\n$/)
  const seen = (await (await fetch(first.stdout.trim())).json()) as { STORE: string; WHO: string }
  expect(seen.WHO).toBe('me')
  expect(await query(seen.STORE, 'select 1')).toEqual([[1]])
  const [web, ...others] = (await server.client.apps.list({ params })).apps
  expect(others).toEqual([])
  const { processes } = await server.client.processes.list({ params: { ...params, app_id: web?.id ?? '' } })
  expect(processes[0]).toMatchObject({ type: 'web', instances: 2 })

  await writeFile(join(source.path, 'compose.yaml'), compose.replace(/ {2}worker:\n.*\n/, '  other: { build: . }\n'))
  execFileSync('git', ['-C', source.path, 'commit', '--quiet', '--all', '--message', 'Another'])
  const again = await run()
  expect(again).toMatchObject({ code: 0, stderr: expect.stringContaining('The app web is there already.') })
  expect(again.stderr).toContain('The database db is there already.')
  expect((await server.client.apps.list({ params })).apps.map(({ name }) => name).toSorted()).toEqual(['other', 'web'])
  expect((await server.client.databases.list({ params })).databases).toHaveLength(1)
})

it('import compose redeploys an app whose first deployment failed, and none by another folder’s fairlead.json', async () => {
  const compose = `
services:
  web: { build: ., environment: { WHO: file } }
  api: { build: ./api }
`
  const ends = { ...app, 'server.js': 'process.exit(1)' }
  const forWeb = JSON.stringify({ start: ['node', 'server.js'] })
  await using source = await repository({ 'compose.yaml': compose, 'fairlead.json': forWeb, ...ends })
  const environment = { FAIRLEAD_URL: server.url, FAIRLEAD_API_KEY: server.apiKey }
  const run = () => commandHere(['import', 'compose', source.path, '--project', 'Again'], environment)

  const first = await run()
  expect(first).toMatchObject({ code: 1, stdout: '' })
  expect(first.stderr).toContain('api is not deployed: the fairlead.json of the repository is for the folder .')
  const params = { project_id: await idOf('Again') }
  const apps = await server.client.apps.list({ params })
  expect(apps.apps.map(({ name }) => name)).toEqual(['web'])
  const app_id = apps.apps[0]?.id ?? ''
  await server.client.variables.update({ params: { ...params, app_id }, body: { set: { WHO: 'mended' } } })

  await writeFile(join(source.path, 'server.js'), app['server.js'])
  execFileSync('git', ['-C', source.path, 'commit', '--quiet', '--all', '--message', 'Mended'])
  const again = await run()
  expect(again.stdout).toMatch(/^http\S+\n$/)
  expect(await (await fetch(again.stdout.trim())).json()).toEqual({ WHO: 'mended' })
})
