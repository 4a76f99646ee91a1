import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ask, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { repository } from '../../harness/repository.ts'
import { keepingApp } from '../../harness/volumes.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)

it('volumes.list lists volumes with their sizes, which releases and rollbacks keep, and volumes that no release names any more', async () => {
  await using two = await repository(keepingApp({ data: '/var/lib/data', more: '/srv/more' }))
  await using one = await repository(keepingApp({ data: '/srv/data' }))
  const first = await given.deploy('shop', two.url)
  expect(first).toMatchObject({ status: 'running', failure: null })
  const add = async (note: string) => (await fetch(`${first.url}?${note}`)).text()
  expect(await add('a')).toBe('a')
  const params = { project_id: given.projectId, app_id: (await given.appNamed('shop')).id }
  const read = () => succeed(caller(), 'volumes.list', params)
  const bytes = expect.any(Number)
  const max_bytes = 100_000_000_000
  const all = [
    { name: 'data', path: '/var/lib/data', bytes },
    { name: 'more', path: '/srv/more', bytes },
  ]
  expect(await read()).toEqual({ max_bytes, volumes: all })

  expect(await given.deploy('shop', one.url)).toMatchObject({ status: 'running' })
  expect(await add('b')).toBe('ab')
  const left = [
    { name: 'data', path: '/srv/data', bytes },
    { name: 'more', path: null, bytes },
  ]
  expect(await read()).toEqual({ max_bytes, volumes: left })

  await given.client.deployments.rollback(given.paramsOf(first.id))
  expect(await given.end(first.id)).toMatchObject({ status: 'running' })
  expect(await add('c')).toBe('abc')
  expect((await read()).volumes[0]?.bytes).toBeGreaterThan(0)
})

it('volumes.update deletes only a volume that no release names any more; with the app all disappear', async () => {
  await using two = await repository(keepingApp({ data: '/srv/data', old: '/srv/old' }))
  await using one = await repository(keepingApp({ data: '/srv/data' }))
  await given.deploy('deleting', two.url)
  const app_id = (await given.appNamed('deleting')).id
  const params = { project_id: given.projectId, app_id }
  const refused = async (...names: string[]) => {
    const { status, text } = await ask(caller(), 'volumes.update', params, { delete: names })
    expect(status).toBe(400)
    return text
  }
  expect(await refused('old')).toContain('is in use: deploy a release that does not name it first')
  expect(await given.deploy('deleting', one.url)).toMatchObject({ status: 'running' })
  for (const name of ['none', '..', '../data', '.', 'data/files', '']) {
    expect(await refused(name)).toContain('is not a volume of this app')
  }
  expect(await refused('old', 'data')).toContain('is in use')
  const { volumes } = await succeed(caller(), 'volumes.update', params, { delete: ['old'] })
  expect(volumes).toMatchObject([{ name: 'data', path: '/srv/data' }])

  const folder = join(given.server.dataDirectory, 'apps', app_id)
  expect(await readdir(join(folder, 'volumes'))).not.toContain('old')
  await given.client.apps.delete({ params: { project_id: given.projectId, id: app_id } })
  await expect.poll(() => readdir(folder).catch(() => null)).toBe(null)
})

it('a deployment from another one finds its files at the build’s path, even when the other is gone, and takes no additional space', async () => {
  await using source = await repository({
    'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
    'build.js': `const { openSync, ftruncateSync, writeFileSync } = require('node:fs')
ftruncateSync(openSync('holes.img', 'w'), 8e12)
writeFileSync('made.txt', String(Math.random()))
writeFileSync('path.txt', process.cwd())`,
    'server.js': `const { readFileSync, statSync } = require('node:fs')
const { size, blocks } = statSync('holes.img')
const made = [readFileSync(readFileSync('path.txt', 'utf8') + '/made.txt', 'utf8'), size, blocks].join(' ')
require('node:http').createServer((request, response) => response.end(made)).listen(process.env.PORT)`,
  })
  const tested = await given.deploy('staging', source.url)
  const made = await (await fetch(tested.url)).text()
  expect(made).toMatch(/ 8000000000000 0$/)
  const params = { project_id: given.projectId }
  const body = { name: 'production', from_deployment_id: tested.id }
  const { id } = await given.client.deployments.create({ params, body })
  const promoted = await given.end(id)
  expect(promoted).toMatchObject({ status: 'running', failure: null })
  await given.client.deployments.stop(given.paramsOf(tested.id))
  await given.client.deployments.delete(given.paramsOf(tested.id))
  const files = async () =>
    (await releasesOnDisk(given.server.dataDirectory)).filter((path) => path.endsWith(tested.id))
  await expect.poll(files).toEqual([])
  await given.client.deployments.restart(given.paramsOf(id))
  expect((await given.end(id)).status).toBe('running')
  expect(await (await fetch(promoted.url)).text()).toBe(made)
})

it('the files of an app are closed to the users of other apps', async () => {
  const { id } = await given.deploy('private')
  const [folder] = (await releasesOnDisk(given.server.dataDirectory)).filter((path) => path.endsWith(id))
  expect((await stat(join(String(folder), 'source'))).mode & 0o077).toBe(0)
})
