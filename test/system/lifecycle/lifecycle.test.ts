import { once } from 'node:events'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { basename, join } from 'node:path'
import type { Client } from '@fairlead/server/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ownVersion } from '../../../server/src/platform/package-files.ts'
import { deployAndSettle, hangingBuild, processesOf, settled } from '../../harness/deployments.ts'
import { fairlead, type ServerProcess, serverProcess } from '../../harness/process.ts'
import { testReceiver } from '../../harness/receiver.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/*
 * Runs one server process after another on one data directory. test/processes/story.test.ts shows that an app outlives
 * its server, and that the next server adopts it; replicas.test.ts shows that an app that ends is restarted.
 */

const cleanup = new AsyncDisposableStack()
let data: string
let key: string
let server: ServerProcess
let port: string
let client: Client
let project_id: string

beforeAll(async () => {
  data = join(cleanup.use(await temporaryDirectory()).path, 'data')
  server = await serverProcess(data)
  cleanup.defer(async () => void (await server.stop()))
  // A running server has the necessary database, which the command would start otherwise.
  key = (await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data])).stdout.trim()
  port = new URL(server.url).port
  client = server.clientFor(key)
  project_id = (await client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id
})
afterAll(() => cleanup.disposeAsync())

const startAgain = async () => {
  server = await serverProcess(data, { FAIRLEAD_PORT: port })
}

const create = (name: string, git_url: string) =>
  client.deployments.create({ params: { project_id }, body: { name, git_url } })
const deploy = (name: string, git_url: string) => deployAndSettle(client, project_id, { name, git_url })
const read = (id: string) => client.deployments.get({ params: { project_id, id } })
const end = (id: string) => settled(client, project_id, id)

/** Resolves when the deployment has its turn, which earlier servers have not seen. */
const begins = (id: string) =>
  server.waitForLog((line) => line['msg'] === 'deployment begins' && JSON.stringify(line).includes(id))

const answers = async (url: string) => {
  for (;;) {
    const response = await fetch(url).catch(() => undefined)
    if (response?.ok) return response.text()
    await new Promise((done) => setTimeout(done, 50))
  }
}

/** Returns an app whose first build hangs. The second build finds the file of the first and succeeds. */
const builtAtSecondAttempt = (answer: string) => ({
  ...nodeApp(answer),
  'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
  'build.js': `const fs = require('node:fs')
const mark = process.env.HOME + '/${markOf(answer)}'
if (!fs.existsSync(mark)) { fs.writeFileSync(mark, ''); setInterval(() => {}, 1000) }`,
})

const markOf = (answer: string) => `built-${answer}-before`

const buildHangs = (answer: string) =>
  expect
    .poll(() => readdir(join(data, 'apps'), { recursive: true }), { timeout: 60_000 })
    .toContainEqual(expect.stringContaining(markOf(answer)))

/** Ends a process, which may be ending already, because of an earlier kill or by itself. */
function killAtOnce(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

describe('kill -9 of the server', () => {
  it('and of an app: the app is restarted, an app that outlived the server stays limited, and an interrupted build is repeated', async () => {
    await using hog = await repository({
      ...nodeApp(''),
      // Allocates at most 1.2 GB, in case it is not ended.
      'server.js': `const kept = []
const hog = () => { kept.push(Buffer.alloc(16e6, 1)); if (kept.length < 75) setTimeout(hog, 50) }
require('node:http').createServer((request, response) => {
  response.end('fine')
  if (request.url === '/hog') hog()
}).listen(process.env.PORT)`,
    })
    await using app = await repository(nodeApp('back'))
    await using built = await repository(builtAtSecondAttempt('rebuilt'))
    await using receiver = await testReceiver()
    const hook = await client.webhooks.create({ body: { url: receiver.url } })
    receiver.trust(hook.secret)
    const { id: plain } = await client.projects.create({ body: { name: 'limited' } })
    const [adopted, ended] = await Promise.all([
      deployAndSettle(client, plain, { name: 'hog', git_url: hog.url }),
      deploy('ends', app.url),
    ])
    const before = await processesOf(adopted.id)
    const made = await create('rebuilt', built.url)
    await buildHangs('rebuilt')
    const building = await processesOf(made.id)
    await server.kill()
    for (const pid of await processesOf(ended.id)) killAtOnce(pid)
    await startAgain()
    expect(await answers(ended.url)).toBe('back')
    expect(await answers(adopted.url)).toBe('fine')
    expect(await processesOf(adopted.id)).toEqual(before)
    await fetch(`${adopted.url}/hog`)
    // The app is ended and restarted.
    await expect.poll(() => processesOf(adopted.id), { timeout: 60_000 }).not.toEqual(before)
    expect(await answers(adopted.url)).toBe('fine')

    // The deployment is built again, and all processes of the first attempt have ended.
    const deployment = await end(made.id)
    expect(deployment).toMatchObject({ status: 'running', failure: null })
    expect((await processesOf(made.id)).filter((pid) => building.includes(pid))).toEqual([])
    expect(await answers(deployment.url)).toBe('rebuilt')
    await receiver.waitFor(({ data }) => data.deployment_id === made.id)
    await client.webhooks.delete({ params: { id: hook.id } })
  })

  it('twice during the same build: the deployment fails with that reason', async () => {
    await using app = await repository(hangingBuild)
    const made = await create('interrupted', app.url)
    for (let round = 0; round < 2; round++) {
      await begins(made.id)
      await server.kill()
      await startAgain()
    }
    expect(await end(made.id)).toMatchObject({ status: 'failed', failure: { code: 'interrupted' } })
    expect(await processesOf(made.id)).toEqual([])
  })
})

it('a graceful stop ends apps and builds: the next start restores the apps and builds again', async () => {
  await using home = await repository(nodeApp('home'))
  await using rebuilt = await repository(builtAtSecondAttempt('later'))
  await using dying = await repository({
    'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
    // A child process that ignores SIGTERM delays the restart of the app.
    'server.js': `const { spawn } = require('node:child_process')
spawn(process.execPath, ['-e', 'process.on("SIGTERM", () => {}); setInterval(() => {}, 1000)'], { stdio: 'ignore' })
require('node:http').createServer((request, response) => {
  if (request.url === '/die') process.exit(1)
  response.end('alive')
}).listen(process.env.PORT)`,
  })
  const app = await deploy('home', home.url)
  const dies = await deploy('dies', dying.url)
  const made = await create('later', rebuilt.url)
  await buildHangs('later')
  // An app that dies while the server stops is not left running, either.
  await fetch(`${dies.url}/die`).catch(() => undefined)
  await server.waitForLog((line) => line['msg'] === 'starting the release again')
  expect(await server.stop()).toBe(0)
  for (const { id } of [app, dies, made]) expect(await processesOf(id)).toEqual([])

  // Another program has the address of the app. The app waits for it, and deployments of the app fail with that reason.
  const occupant = createServer((socket) => socket.destroy())
  occupant.listen(Number(new URL(app.url).port), '127.0.0.1')
  await once(occupant, 'listening')
  await mkdir(join(data, 'compiled', '0.0.1'), { recursive: true })
  await startAgain()
  // The compiled code of another version cannot be used.
  expect(await readdir(join(data, 'compiled'))).toEqual([ownVersion])
  expect(await end(made.id)).toMatchObject({ status: 'running' })
  const refused = await deploy('home', home.url)
  expect(refused.failure).toMatchObject({ stage: 'switch', code: 'address_taken' })
  occupant.close()
  await once(occupant, 'close')
  expect(await answers(app.url)).toBe('home')
  expect((await read(app.id)).status).toBe('running')
  expect(await answers(dies.url)).toBe('alive')
})

it('an app keeps five releases besides the running one', async () => {
  await using site = await repository({ 'index.html': 'here' })
  const made: string[] = []
  for (let release = 0; release < 7; release++) made.push((await deploy('site', site.url)).id)
  await expect
    .poll(async () =>
      (await releasesOnDisk(data))
        .map((path) => basename(path))
        .filter((id) => made.includes(id))
        .sort(),
    )
    .toEqual(made.slice(1))
  const [first = ''] = made
  expect((await read(first)).status).toBe('superseded')
  await expect(client.deployments.rollback({ params: { project_id, id: first } })).rejects.toMatchObject({
    code: 'invalid_request',
    message: expect.stringContaining('not kept'),
  })
})

describe('kill -9 of the database', () => {
  it('during a deployment: the server survives, and the deployment reaches the correct state and sends its webhook', async () => {
    await using receiver = await testReceiver()
    await using app = await repository({
      ...nodeApp('through'),
      'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
      'build.js': 'setTimeout(() => {}, 1500)',
    })
    const hook = await client.webhooks.create({ body: { url: receiver.url } })
    receiver.trust(hook.secret)
    const made = await create('through', app.url)
    await begins(made.id)
    const lock = await readFile(join(data, 'postgres/data/postmaster.pid'), 'utf8')
    process.kill(Number(lock.split('\n')[0]), 'SIGKILL')
    // Requests may fail until the database is back, and connections survive their postmaster for a moment.
    await expect
      .poll(() => read(made.id).catch(() => undefined), { timeout: 90_000 })
      .toMatchObject({ status: 'running' })
    expect(await answers(made.url)).toBe('through')
    await receiver.waitFor(({ data }) => data.deployment_id === made.id)
  })

  it('repeatedly while a deployment ends: the server survives and the state is correct', async () => {
    await using app = await repository({
      'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
      'build.js': 'setTimeout(() => process.exit(1), 1000)',
    })
    const made = await create('fails', app.url)
    await begins(made.id)
    const until = performance.now() + 4000
    while (performance.now() < until) {
      const lock = await readFile(join(data, 'postgres/data/postmaster.pid'), 'utf8').catch(() => '')
      const pid = Number(lock.split('\n')[0])
      if (pid > 0 && (await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '')).trim() === 'postgres') {
        killAtOnce(pid)
      }
      await new Promise((done) => setTimeout(done, 50))
    }
    await expect
      .poll(() => read(made.id).catch(() => undefined), { timeout: 90_000 })
      .toMatchObject({ status: 'failed', failure: { code: 'build_failed' } })
    expect(server.child.exitCode).toBeNull()
  })
})
