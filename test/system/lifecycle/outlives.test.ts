import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Client } from '@fairlead/server/client'
import { Client as Postgres } from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Status } from '../../../server/src/commands/machine-status.ts'
import { pidIsTaken } from '../../../server/src/platform/processes.ts'
import type { OsUser } from '../../../server/src/platform/users.ts'
import { commandHere } from '../../harness/command-here.ts'
import { deployAndSettle, hangingBuild, processesOf } from '../../harness/deployments.ts'
import { noOrdinaryUser, ordinaryUser, skipped } from '../../harness/ordinary-user.ts'
import { freePort } from '../../harness/ports.ts'
import { fairlead, processesAround, processesIn, type ServerProcess, serverProcess } from '../../harness/process.ts'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'
import { isRoot, temporaryDirectory } from '../../harness/temporary.ts'

/*
 * Apps and databases are separate processes: a stop of the server leaves them running or ends them, as requested.
 * `fairlead status` and `fairlead stop` work with and without a server.
 */

const noUser = isRoot ? await noOrdinaryUser() : null
if (noUser !== null) skipped('what outlives a server of an ordinary user', noUser)
const users: readonly (readonly [name: string, user: OsUser | null])[] = [
  [isRoot ? 'root' : 'an ordinary user', null],
  ...(isRoot && noUser === null ? [['an ordinary user', ordinaryUser] as const] : []),
]

const fixture = fileURLToPath(new URL('./fixtures/control-process.ts', import.meta.url))

/* One server after another on the same data directory. */
describe.each(users)('as %s', (_, user) => {
  // Tests that do not depend on the user run as the user of the tests.
  const isOwn = user === null
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>
  let data: string
  let settings: Readonly<Record<string, string>>
  let server: ServerProcess
  let client: Client
  let project: string
  let app: Repository
  const others: ChildProcess[] = []

  let web: { readonly id: string; readonly url: string }

  beforeAll(async () => {
    directory = await temporaryDirectory()
    data = join(directory.path, 'data')
    if (user !== null) {
      await mkdir(data, { mode: 0o700 })
      await chown(data, user.uid, user.gid)
    }
    settings = { FAIRLEAD_PORT: String(await freePort()), FAIRLEAD_ON_STOP: 'server' }
    app = await repository(nodeApp('hello'))
  })
  afterAll(async () => {
    await app[Symbol.asyncDispose]()
    await directory[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    server = await start()
  })
  afterEach(async () => {
    for (const other of others.splice(0)) other.kill('SIGKILL')
    server.child.kill('SIGCONT')
    await server.kill()
    await command('stop', '--timeout', '5')
  })

  const command = (...args: string[]) =>
    user === null ? commandHere([...args, '--data-dir', data]) : fairlead([...args, '--data-dir', data], {}, { user })
  const start = () => serverProcess(data, settings, user)
  const deploy = (name: string, git_url = app.url) => deployAndSettle(client, project, { name, git_url })
  /** Resolves when the app of the first test runs, with its processes. */
  const webRuns = async () => {
    await expect.poll(() => fetch(web.url).then((answer) => answer.text(), String), { timeout: 60_000 }).toBe('hello')
    return processesOf(web.id)
  }
  const status = async (): Promise<{ readonly code: number; readonly status: Status }> => {
    const { code, stdout, stderr } = await command('status', '--json')
    expect(stderr).toBe('')
    return { code, status: JSON.parse(stdout) as Status }
  }
  const interrupted = async () => {
    const exited = once(server.child, 'exit')
    server.child.kill('SIGINT')
    expect(await exited).toEqual([0, null])
  }
  const stopped = async () => {
    const { code, stdout, stderr } = await command('stop')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(await processesAround(directory.path)).toEqual([])
    return stdout
  }

  it('SIGTERM ends only the server, the next server adopts the processes, and `fairlead stop` ends everything', async () => {
    const key = await command('keys', 'create', '--new', '--name', 'test')
    client = server.clientFor(key.stdout.trim())
    project = (await client.projects.create({ body: { name: 'shop' } })).id
    const deployment = await deploy('web')
    web = deployment
    const created = await client.databases.create({ params: { project_id: project }, body: { name: 'data' } })
    const at = { params: { project_id: project, id: created.id } }
    await expect.poll(async () => (await client.databases.get(at)).status, { timeout: 90_000 }).toBe('available')
    const database = new Postgres({ connectionString: created.connection_string })
    await database.connect()
    const before = await status()
    expect(before).toMatchObject({ code: 0, status: { unread: null, problems: [] } })
    expect(before.status.servers).toMatchObject([
      { pid: server.child.pid, state: 'ready', leading: true, url: server.url, version: expect.any(String) },
    ])
    expect(before.status.clusters.map(({ purpose, pid }) => [purpose, pid !== null])).toEqual([
      ['state', true],
      ['users', true],
    ])
    const ours = {
      project: 'shop',
      name: 'web',
      deployment_id: deployment.id,
      status: 'running',
      pid: expect.any(Number),
      since: expect.any(String),
      memory_bytes: expect.any(Number),
    }
    expect(before.status.apps).toMatchObject([ours])
    const pids = await processesOf(deployment.id)

    expect(await server.stop()).toBe(0)
    expect(await processesOf(deployment.id)).toEqual(pids)
    const between = await status()
    expect(between).toMatchObject({ code: 3, status: { servers: [], unread: null, problems: [] } })
    expect(between.status.apps).toEqual(
      before.status.apps.map((each) => ({ ...each, memory_bytes: expect.any(Number) })),
    )
    expect(between.status.clusters).toEqual(before.status.clusters)
    expect((await database.query('select 1 as one')).rows).toEqual([{ one: 1 }])
    const table = await command('status')
    expect(table.stdout).toMatch(/^web +shop +dep_\w+ +running +\d+ /m)
    expect(table.stdout).toContain('no server runs')

    server = await start()
    await expect.poll(() => fetch(deployment.url).then((answer) => answer.text()), { timeout: 30_000 }).toBe('hello')
    expect(await processesOf(deployment.id)).toEqual(pids)
    expect((await status()).status.clusters).toEqual(before.status.clusters)
    expect((await database.query('select 1 as one')).rows).toEqual([{ one: 1 }])
    database.on('error', () => undefined)

    const said = await stopped()
    expect(said).toContain(`(pid ${server.child.pid})`)
    expect(said).toContain(deployment.id)
    expect(said).toContain("PostgreSQL 18 of users' databases")
    expect(server.child.exitCode).toBe(0)
    const nothing = expect.stringContaining(`nothing was running with the data directory ${data}\n`)
    expect(await command('stop')).toMatchObject({ code: 3, stdout: nothing })
    expect(await status()).toMatchObject({ code: 3, status: { servers: [], apps: [] } })
  })

  it.runIf(isOwn)('SIGINT leaves apps and databases to another server of the data directory', async () => {
    const pids = await webRuns()
    const clusters = (await status()).status.clusters
    const other = spawn(process.execPath, [fixture, join(data, 'run')], { stdio: ['ignore', 'pipe', 'inherit'] })
    others.push(other)
    await once(other.stdout, 'data')
    await interrupted()
    expect(await processesOf(web.id)).toEqual(pids)
    expect((await status()).status.clusters).toEqual(clusters)
    const ended = once(other, 'exit')
    await stopped()
    expect(await ended).toEqual([0, null])
  })

  it.runIf(isOwn)('a server that hangs and a broken app are named, and `fairlead stop` ends all by force', async () => {
    const pids = await webRuns()
    const { pid } = (await status()).status.apps[0] ?? {}
    process.kill(Number(pid), 'SIGSTOP')
    server.child.kill('SIGSTOP')
    const hanging = await status()
    expect(hanging.code).toBe(1)
    expect(hanging.status.servers).toMatchObject([{ pid: server.child.pid, state: 'unresponsive', leading: null }])
    expect(hanging.status.problems).toEqual([`server ${server.child.pid} does not answer`])

    // A suspended server cannot restart the app. The sandbox's process has no environment to be found by.
    for (const each of [...pids, Number(pid)]) {
      if (pidIsTaken(each)) process.kill(each, 'SIGKILL')
    }
    await expect.poll(() => processesOf(web.id), { timeout: 30_000 }).toEqual([])
    const { code, status: seen } = await status()
    expect(code).toBe(1)
    expect(seen.apps).toMatchObject([{ deployment_id: web.id, status: 'running', pid: null, since: null }])
    expect(seen.problems).toContain('app web does not run')

    const ended = await command('stop', '--timeout', '1')
    expect(ended).toMatchObject({ code: 0, stdout: expect.stringContaining('by force') })
    expect(await processesAround(directory.path)).toEqual([])
  })

  it('`fairlead stop` ends a killed server’s processes, and a process that has left its session and environment', async () => {
    await webRuns()
    const seconds = `86399.${server.child.pid}`
    const files = nodeApp('hello')
    await using escaping = await repository({
      ...files,
      'server.js': `${files['server.js']}
require('node:child_process').spawn('env', ['-i', 'setsid', '-f', 'sleep', '${seconds}'], { stdio: 'ignore' })`,
    })
    const isolation = server.log.find(({ msg }) => msg === 'isolation of builds and apps')
    const isConfined = isolation?.['bubblewrap'] === true || isolation?.['cgroups'] !== 'none'
    const other = await deploy('other', isConfined ? escaping.url : app.url)
    if (isConfined) await expect.poll(() => processesIn(seconds), { timeout: 30_000 }).toHaveLength(1)
    await server.kill()
    expect(await status()).toMatchObject({ code: 3, status: { servers: [], problems: [] } })
    const said = await stopped()
    for (const { id } of [web, other]) expect(said).toContain(id)
    expect(await processesIn(seconds)).toEqual([])
    // The next start restores them.
    server = await start()
    for (const { url } of [web, other]) {
      await expect.poll(() => fetch(url).then((answer) => answer.status, String), { timeout: 60_000 }).toBe(200)
    }
  })

  it.runIf(isOwn)(
    'SIGTERM during a build leaves nothing of the build, the next server builds again, and SIGINT ends everything',
    async () => {
      await using hanging = await repository(hangingBuild)
      const params = { project_id: project }
      const made = await client.deployments.create({ params, body: { name: 'hangs', git_url: hanging.url } })
      const log = () => client.deployments.logs({ params: { ...params, id: made.id }, query: { stream: 'build' } })
      const builds = () => expect.poll(async () => (await log()).text(), { timeout: 60_000 }).toContain('building')
      await builds()
      expect(await server.stop()).toBe(0)
      expect(await processesOf(made.id)).toEqual([])
      server = await start()
      await server.waitForLog(({ msg }) => msg === 'deployment begins')
      expect((await client.deployments.get({ params: { ...params, id: made.id } })).status).toBe('building')
      await interrupted()
      expect(await processesOf(web.id)).toEqual([])
      expect(await processesAround(directory.path)).toEqual([])
    },
  )
})
