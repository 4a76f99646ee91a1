import { chmod, readFile } from 'node:fs/promises'
import type { Client } from '@fairlead/server/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Status } from '../../../server/src/commands/machine-status.ts'
import type { OsUser } from '../../../server/src/platform/users.ts'
import { testDatabase } from '../../harness/database.ts'
import { deployAndSettle, processesOf } from '../../harness/deployments.ts'
import { ended, running } from '../../harness/gateway/program.ts'
import { noOrdinaryUser, ordinaryDirectory, ordinaryUser, skipped } from '../../harness/ordinary-user.ts'
import { freePort } from '../../harness/ports.ts'
import { fairlead, type ServerProcess, serverProcess } from '../../harness/process.ts'
import { type Repository, repository } from '../../harness/repository.ts'
import { isRoot, temporaryDirectory } from '../../harness/temporary.ts'

/* Static sites have no process: the gateway answers from their folders, and they have the same life as other apps. */

const noUser = isRoot ? await noOrdinaryUser() : null
if (noUser !== null) skipped('static sites of a server of an ordinary user', noUser)
const users: readonly (readonly [name: string, user: OsUser | null])[] = [
  [isRoot ? 'root' : 'an ordinary user', null],
  ...(isRoot && noUser === null ? [['an ordinary user', ordinaryUser] as const] : []),
]

describe.each(users)('as %s', (_, user) => {
  const cleanup = new AsyncDisposableStack()
  let data: string
  let settings: Readonly<Record<string, string>>
  let server: ServerProcess
  let client: Client
  let project: string
  let site: Repository
  let first: string
  let url: string

  const command = (...args: string[]) => fairlead([...args, '--data-dir', data], settings, { user })
  const statusOf = async () => JSON.parse((await command('status', '--json')).stdout) as Status
  const body = async () => (await fetch(url)).text()
  const again = async () => expect.poll(() => body().catch(String), { timeout: 60_000 }).toBe('second')

  beforeAll(async () => {
    const directory = cleanup.use(user === null ? await temporaryDirectory() : await ordinaryDirectory())
    data = user === null ? `${directory.path}/data` : directory.path
    const FAIRLEAD_PORT = String(await freePort())
    settings = { FAIRLEAD_PORT, FAIRLEAD_ON_STOP: 'server', FAIRLEAD_STABLE_TIME: '0.1' }
    // An ordinary user cannot reach the cluster of the run.
    if (user === null) settings = { ...settings, DATABASE_URL: cleanup.use(await testDatabase()).url }
    cleanup.defer(async () => {
      await server.kill()
      await command('stop', '--timeout', '5')
    })
    server = await serverProcess(data, settings, user)
    const key = await command('keys', 'create', '--new', '--name', 'test')
    client = server.clientFor(key.stdout.trim())
    project = (await client.projects.create({ body: { name: 'pages' } })).id
    site = cleanup.use(await repository({ 'index.html': 'first', '.env': 'SECRET=1' }))
  })
  afterAll(() => cleanup.disposeAsync())

  it('is deployed without a process', async () => {
    const deployment = await deployAndSettle(client, project, { name: 'web', git_url: site.url })
    expect(deployment).toMatchObject({ status: 'running', failure: null })
    first = deployment.id
    url = deployment.url
    expect(await body()).toBe('first')
    expect((await fetch(`${url}/.env`)).status).toBe(404)
    expect(await processesOf(deployment.id)).toEqual([])
    const ours = { name: 'web', project: 'pages', deployment_id: first, status: 'running', pid: null, site: true }
    expect(await statusOf()).toMatchObject({ apps: [ours], problems: [] })
  })

  it('gets a new release, is rolled back, stopped and restarted', async () => {
    await site.commit({ 'index.html': 'second' })
    const second = await deployAndSettle(client, project, { name: 'web', git_url: site.url })
    expect([second.status, await body()]).toEqual(['running', 'second'])
    const at = (id: string) => ({ params: { project_id: project, id } })
    await client.deployments.rollback(at(first))
    await expect.poll(body, { timeout: 60_000 }).toBe('first')
    // Visitors get the new release before the API reports it as running.
    const stateOfSecond = async () => (await client.deployments.get(at(second.id))).status
    await expect.poll(stateOfSecond, { timeout: 60_000 }).toBe('superseded')
    await client.deployments.rollback(at(second.id))
    await expect.poll(body, { timeout: 60_000 }).toBe('second')
    await client.deployments.stop(at(second.id))
    await expect.poll(async () => (await fetch(url)).status, { timeout: 60_000 }).toBe(503)
    await client.deployments.restart(at(second.id))
    await again()
  })

  it('answers again after kill -9 of the gateway, and after kill -9 of the server and the gateway', async () => {
    const killGateway = async () => {
      const gateway = await running(data)
      process.kill(gateway.pid, 'SIGKILL')
      await ended(gateway)
    }
    await killGateway()
    await again()
    await server.kill()
    await killGateway()
    server = await serverProcess(data, settings, user)
    await again()
    expect(await processesOf(first)).toEqual([])
  })

  it.runIf(user === null && isRoot)('is read by a gateway that may only read sites', async () => {
    const { pid } = JSON.parse(await readFile(`${data}/gateway/gateway.json`, 'utf8')) as { pid: number }
    const state = await readFile(`/proc/${pid}/status`, 'utf8')
    const field = (name: string) => state.match(new RegExp(`^${name}:\\s+(.*)$`, 'm'))?.[1]?.split(/\s+/)
    const [uid] = field('Uid') ?? []
    expect(Number(uid)).toBeGreaterThan(1000)
    expect(field('Uid')).toEqual([uid, uid, uid, uid])
    expect(field('Gid')).toEqual([uid, uid, uid, uid])
    expect(state).toMatch(/^Groups:\s*$/m)
    expect(['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map((name) => Number(`0x${field(name)}`))).toEqual([
      0, 0, 0, 0, 0,
    ])
    expect(field('NoNewPrivs')).toEqual(['1'])
  })

  it.runIf(user === null && isRoot)(
    'that the gateway could not read is opened again once the server knows',
    async () => {
      const [app] = (await statusOf()).apps
      const release = `${data}/apps/${app?.app_id}/releases/${app?.deployment_id}`
      await chmod(`${release}/source`, 0)
      await fetch(url)
      await again()
    },
  )

  it.runIf(user === null)(
    'with routes in the browser answers for them, even after a restart of the server',
    async () => {
      const scripts = { start: 'vite', build: "mkdir dist && printf app > dist/index.html && printf '' > dist/a.js" }
      await using source = await repository({
        'package.json': JSON.stringify({ scripts, optionalDependencies: {}, devDependencies: { vite: 'file:./vite' } }),
        'vite/package.json': JSON.stringify({ name: 'vite', version: '1.0.0' }),
      })
      const app = await deployAndSettle(client, project, { name: 'routed', git_url: source.url })
      expect(app).toMatchObject({ status: 'running', failure: null })
      const build = await (await client.deployments.logs({ params: { project_id: project, id: app.id } })).text()
      expect(build).toMatch(/"vite", which is for development.*dist\/ as a static site/)
      expect(build).toContain('The app starts with: fairlead-static --spa dist')
      const route = async () => (await fetch(`${app.url}/users/7`)).text()
      expect(await route()).toBe('app')
      expect((await fetch(`${app.url}/old.js`)).status).toBe(404)
      await server.stop()
      server = await serverProcess(data, settings, user)
      await expect.poll(() => route().catch(String), { timeout: 60_000 }).toBe('app')
    },
  )

  it.runIf(user === null)(
    'that the build did not produce fails right after the build, and the error names the searched folders',
    async () => {
      await using source = await repository({
        'package.json': JSON.stringify({
          scripts: { start: 'vite', build: 'true' },
          devDependencies: { vite: 'file:./vite' },
        }),
        'vite/package.json': JSON.stringify({ name: 'vite', version: '1.0.0' }),
      })
      const failed = await deployAndSettle(client, project, { name: 'nothing', git_url: source.url })
      expect(failed.failure).toMatchObject({ stage: 'build', code: 'no_build_output' })
      expect(failed.failure?.message).toContain('there is none of dist/index.html')
    },
  )

  it.runIf(user === null)('without an index.html in the build’s output fails, and says so', async () => {
    await using empty = await repository({
      'fairlead.json': JSON.stringify({ build: ['true'], start: ['fairlead-static', 'dist', 'out'] }),
    })
    const failed = await deployAndSettle(client, project, { name: 'empty', git_url: empty.url })
    expect(failed.failure?.message).toContain('there is none of dist, out')
  })
})
