import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hangingBuild, hangingStart, processesOf } from '../../harness/deployments.ts'
import { type OwnServerWithProject, ownServerWithProject, processesGone } from '../../harness/project.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { nodeApp, repository } from '../../harness/repository.ts'

/*
 * Requests end real processes and remove files. API tests, where apps have no processes, show the resulting states, and
 * that a runtime is told to remove a release.
 */

let given: OwnServerWithProject
beforeAll(async () => {
  given = await ownServerWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const logOf = (id: string) => given.client.deployments.logs(given.paramsOf(id)).then((log) => log.text())
const filesOf = async (id: string) =>
  (await releasesOnDisk(given.server.dataDirectory)).filter((path) => path.endsWith(id))
const left = async (id: string) => [await processesOf(id), await filesOf(id)]
const none = [[], []]

describe('a cancel', () => {
  const freeWithinMs = 5_000

  it.each([
    ['a build', hangingBuild, 'building'],
    ['an app that starts and ignores SIGTERM', hangingStart, 'starting'],
  ])('of %s leaves no process and no file after five seconds', async (_, files, printed) => {
    await using source = await repository(files)
    const { id } = await given.create('canceled', source.url)
    await expect.poll(() => logOf(id)).toContain(printed)
    expect(await processesOf(id)).not.toEqual([])
    const canceledAt = performance.now()
    await given.client.deployments.cancel(given.paramsOf(id))
    await expect.poll(() => left(id), { interval: 50 }).toEqual(none)
    expect(performance.now() - canceledAt).toBeLessThan(freeWithinMs)
  })
})

it('a deployment that fails leaves no process and no file', async () => {
  await using source = await repository({
    'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
    'server.js': `const { spawn } = require('node:child_process')
spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: 'ignore' }).unref()
process.exit(7)`,
  })
  const { id, failure } = await given.deploy('exits', source.url)
  expect(failure).toMatchObject({ stage: 'start', code: 'app_exited' })
  await expect.poll(() => left(id)).toEqual(none)
})

it('a build that a rollback supersedes leaves no process and no file', async () => {
  const one = await given.deploy('urgent')
  await given.deploy('urgent')
  await using hanging = await repository(hangingBuild)
  const { id } = await given.create('urgent', hanging.url)
  await expect.poll(() => logOf(id)).toContain('building')
  await given.client.deployments.rollback(given.paramsOf(one.id))
  await expect.poll(() => left(id)).toEqual(none)
})

it('a restart starts a new process, a stop ends it, and the removal of the app leaves nothing', async () => {
  const { id, url } = await given.deploy('life')
  const before = await processesOf(id)
  await given.client.deployments.restart(given.paramsOf(id))
  expect((await given.end(id)).status).toBe('running')
  await expect.poll(async () => (await processesOf(id)).filter((pid) => before.includes(pid))).toEqual([])
  expect(await processesOf(id)).not.toEqual([])
  expect(await (await fetch(url)).text()).toBe('here')

  await given.client.deployments.stop(given.paramsOf(id))
  await processesGone(id)
  expect(await filesOf(id)).not.toEqual([])

  const app = await given.appNamed('life')
  const folder = join(given.server.dataDirectory, 'apps', app.id)
  expect(await readdir(folder)).toContain('releases')
  await given.client.apps.delete({ params: { project_id: given.projectId, id: app.id } })
  await expect.poll(() => readdir(folder).catch(() => null)).toBe(null)
})

it('the removal of one deployment does not touch another’s files and process', async () => {
  const first = await given.deploy('kept')
  await using source = await repository(nodeApp('second'))
  const second = await given.deploy('kept', source.url)
  await processesGone(first.id)
  await given.client.deployments.delete(given.paramsOf(first.id))
  await expect.poll(() => filesOf(first.id)).toEqual([])
  expect(await filesOf(second.id)).not.toEqual([])
  expect(await (await fetch(second.url)).text()).toBe('second')
})
