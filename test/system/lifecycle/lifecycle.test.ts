import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deployAndSettle, processesOf, settled } from '../../harness/deployments.ts'
import { fairlead, type ServerProcess, serverProcess } from '../../harness/process.ts'
import { testReceiver } from '../../harness/receiver.ts'
import { releasesOnDisk, untilAlone } from '../../harness/releases.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let data: string
let key: string
let directory: Awaited<ReturnType<typeof temporaryDirectory>>
let server: ServerProcess
let port: string

beforeEach(async () => {
  directory = await temporaryDirectory()
  data = join(directory.path, 'data')
  server = await serverProcess(data)
  // A running server has the database that it needs, which the command would start otherwise.
  key = (await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data])).stdout.trim()
  port = new URL(server.url).port
})
afterEach(async () => {
  await server.stop()
  await directory[Symbol.asyncDispose]()
})

const startAgain = async () => {
  server = await serverProcess(data, { FAIRLEAD_PORT: port })
  return server.clientFor(key)
}

const answers = async (url: string) => {
  for (;;) {
    const response = await fetch(url).catch(() => undefined)
    if (response?.ok) return response.text()
    await new Promise((done) => setTimeout(done, 50))
  }
}

/** Returns an app whose first build hangs, and whose second one finds the file of the first and succeeds. */
const builtAtSecondAttempt = (answer: string) => ({
  ...nodeApp(answer),
  'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
  'build.js': `const fs = require('node:fs')
const mark = process.env.HOME + '/built-before'
if (!fs.existsSync(mark)) { fs.writeFileSync(mark, ''); setInterval(() => {}, 1000) }`,
})

const buildHangs = () =>
  expect
    .poll(() => readdir(join(data, 'apps'), { recursive: true }), { timeout: 30_000 })
    .toContainEqual(expect.stringContaining('built-before'))

/** Ends a process, which may be ending already: with another one that was killed before, or of its own. */
function killAtOnce(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

describe('kill -9 of the server', () => {
  it('while an app runs: the same process answers again after the next start', async () => {
    await using app = await repository(nodeApp('survivor'))
    const client = server.clientFor(key)
    const project = await client.projects.create({ body: { name: 'p' } })
    const deployment = await deployAndSettle(client, project.id, { name: 'web', git_url: app.url })
    const before = await processesOf(deployment.id)
    await server.kill()
    const again = await startAgain()
    expect(await answers(deployment.url)).toBe('survivor')
    expect(await processesOf(deployment.id)).toEqual(before)
    const read = await again.deployments.get({ params: { project_id: project.id, id: deployment.id } })
    expect(read.status).toBe('running')
  })

  it('the memory of an adopted app stays limited', async () => {
    await using app = await repository({
      ...nodeApp(''),
      // Allocates at most 1.2 GB, in case it is not ended.
      'server.js': `const kept = []
const hog = () => { kept.push(Buffer.alloc(16e6, 1)); if (kept.length < 75) setTimeout(hog, 50) }
require('node:http').createServer((request, response) => {
  response.end('fine')
  if (request.url === '/hog') hog()
}).listen(process.env.PORT)`,
    })
    const client = server.clientFor(key)
    const project = await client.projects.create({ body: { name: 'p' } })
    const deployment = await deployAndSettle(client, project.id, { name: 'web', git_url: app.url })
    const before = await processesOf(deployment.id)
    await server.kill()
    await startAgain()
    expect(await answers(deployment.url)).toBe('fine')
    expect(await processesOf(deployment.id)).toEqual(before)
    await fetch(`${deployment.url}/hog`)
    // The app is ended and started again.
    await expect.poll(() => processesOf(deployment.id), { timeout: 60_000 }).not.toEqual(before)
    expect(await answers(deployment.url)).toBe('fine')
  })

  it('and of the app: the app is started again', async () => {
    await using app = await repository(nodeApp('back'))
    const client = server.clientFor(key)
    const project = await client.projects.create({ body: { name: 'p' } })
    const deployment = await deployAndSettle(client, project.id, { name: 'web', git_url: app.url })
    await server.kill()
    for (const pid of await processesOf(deployment.id)) killAtOnce(pid)
    await startAgain()
    expect(await answers(deployment.url)).toBe('back')
  })

  it('during a build: it is built again, no process of the first attempt remains, and the webhook arrives', async () => {
    await using receiver = await testReceiver()
    await using app = await repository(builtAtSecondAttempt('rebuilt'))
    const client = server.clientFor(key)
    const project = await client.projects.create({ body: { name: 'p' } })
    const hook = await client.webhooks.create({ body: { url: receiver.url } })
    receiver.trust(hook.secret)
    const made = await client.deployments.create({
      params: { project_id: project.id },
      body: { name: 'web', git_url: app.url },
    })
    await buildHangs()
    const building = await processesOf(made.id)
    await server.kill()
    const again = await startAgain()
    const deployment = await settled(again, project.id, made.id)
    expect(deployment).toMatchObject({ status: 'running', failure: null })
    expect((await processesOf(made.id)).filter((pid) => building.includes(pid))).toEqual([])
    expect(await answers(deployment.url)).toBe('rebuilt')
    await receiver.waitFor(({ data }) => data.deployment_id === made.id)
  })

  it('twice during the same build: the deployment fails with that reason', async () => {
    await using app = await repository({
      'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
      'build.js': 'setInterval(() => {}, 1000)',
      'server.js': '',
    })
    let client = server.clientFor(key)
    const project = await client.projects.create({ body: { name: 'p' } })
    const params = { project_id: project.id }
    const made = await client.deployments.create({ params, body: { name: 'web', git_url: app.url } })
    for (let round = 0; round < 2; round++) {
      await server.waitForLog((line) => line['msg'] === 'deployment begins')
      await server.kill()
      client = await startAgain()
    }
    const deployment = await settled(client, project.id, made.id)
    expect(deployment).toMatchObject({ status: 'failed', failure: { code: 'interrupted' } })
    expect(await processesOf(made.id)).toEqual([])
  })
})

describe('a graceful stop', () => {
  it('ends the apps, and the next start brings them back at the same address', async () => {
    await using app = await repository(nodeApp('again'))
    const client = server.clientFor(key)
    const project = await client.projects.create({ body: { name: 'p' } })
    const deployment = await deployAndSettle(client, project.id, { name: 'web', git_url: app.url })
    expect(await server.stop()).toBe(0)
    expect(await processesOf(deployment.id)).toEqual([])
    await startAgain()
    expect(await answers(deployment.url)).toBe('again')
  })

  it('during a build is not a failure: the next start builds again', async () => {
    await using app = await repository(builtAtSecondAttempt('later'))
    const client = server.clientFor(key)
    const project = await client.projects.create({ body: { name: 'p' } })
    const params = { project_id: project.id }
    const made = await client.deployments.create({ params, body: { name: 'web', git_url: app.url } })
    await buildHangs()
    expect(await server.stop()).toBe(0)
    expect(await processesOf(made.id)).toEqual([])
    const again = await startAgain()
    expect(await settled(again, project.id, made.id)).toMatchObject({ status: 'running' })
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
    const client = server.clientFor(key)
    const project = await client.projects.create({ body: { name: 'p' } })
    const hook = await client.webhooks.create({ body: { url: receiver.url } })
    receiver.trust(hook.secret)
    const params = { project_id: project.id }
    const made = await client.deployments.create({ params, body: { name: 'web', git_url: app.url } })
    await server.waitForLog((line) => line['msg'] === 'deployment begins')
    const lock = await readFile(join(data, 'postgres/data/postmaster.pid'), 'utf8')
    process.kill(Number(lock.split('\n')[0]), 'SIGKILL')
    // Requests may fail until the database is back, and connections survive their postmaster for a moment.
    await expect
      .poll(() => client.deployments.get({ params: { ...params, id: made.id } }).catch(() => undefined), {
        timeout: 90_000,
      })
      .toMatchObject({ status: 'running' })
    expect(await answers(made.url)).toBe('through')
    await receiver.waitFor(({ data }) => data.deployment_id === made.id)
  })
})

it('repeated kill -9 of the database while a deployment ends: the server survives and the state is correct', async () => {
  await using app = await repository({
    'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
    'build.js': 'setTimeout(() => process.exit(1), 1000)',
  })
  const client = server.clientFor(key)
  const project = await client.projects.create({ body: { name: 'p' } })
  const params = { project_id: project.id }
  const made = await client.deployments.create({ params, body: { name: 'web', git_url: app.url } })
  await server.waitForLog((line) => line['msg'] === 'deployment begins')
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
    .poll(() => client.deployments.get({ params: { ...params, id: made.id } }).catch(() => undefined), {
      timeout: 90_000,
    })
    .toMatchObject({ status: 'failed', failure: { code: 'build_failed' } })
  expect(server.child.exitCode).toBeNull()
})

describe('an app', () => {
  it('that dies is started again', async () => {
    await using app = await repository(nodeApp('phoenix'))
    const client = server.clientFor(key)
    const project = await client.projects.create({ body: { name: 'p' } })
    const deployment = await deployAndSettle(client, project.id, { name: 'web', git_url: app.url })
    const before = await processesOf(deployment.id)
    for (const pid of before) killAtOnce(pid)
    await expect.poll(() => processesOf(deployment.id), { timeout: 30_000 }).not.toEqual(before)
    expect(await answers(deployment.url)).toBe('phoenix')
  })

  it('that dies while the server stops is not left running', async () => {
    await using app = await repository({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      // A child process that ignores SIGTERM delays the restart of the app.
      'server.js': `const { spawn } = require('node:child_process')
spawn(process.execPath, ['-e', 'process.on("SIGTERM", () => {}); setInterval(() => {}, 1000)'], { stdio: 'ignore' })
require('node:http').createServer((request, response) => {
  if (request.url === '/die') process.exit(1)
  response.end('alive')
}).listen(process.env.PORT)`,
    })
    const client = server.clientFor(key)
    const project = await client.projects.create({ body: { name: 'p' } })
    const deployment = await deployAndSettle(client, project.id, { name: 'web', git_url: app.url })
    await fetch(`${deployment.url}/die`).catch(() => undefined)
    await server.waitForLog((line) => line['msg'] === 'starting the release again')
    expect(await server.stop()).toBe(0)
    expect(await processesOf(deployment.id)).toEqual([])
  })

  it('whose address another program occupies waits for it, and deployments fail with that reason', async () => {
    await using app = await repository(nodeApp('home'))
    const client = server.clientFor(key)
    const project = await client.projects.create({ body: { name: 'p' } })
    const deployment = await deployAndSettle(client, project.id, { name: 'web', git_url: app.url })
    await server.stop()
    const occupant = createServer((socket) => socket.destroy())
    occupant.listen(Number(new URL(deployment.url).port), '127.0.0.1')
    await once(occupant, 'listening')
    const again = await startAgain()
    const refused = await deployAndSettle(again, project.id, { name: 'web', git_url: app.url })
    expect(refused.failure).toMatchObject({ stage: 'switch', code: 'address_taken' })
    occupant.close()
    await once(occupant, 'close')
    expect(await answers(deployment.url)).toBe('home')
    const read = await again.deployments.get({ params: { project_id: project.id, id: deployment.id } })
    expect(read.status).toBe('running')
  })

  it('leaves no process of a release that was replaced, and five releases besides the one that runs', async () => {
    await using app = await repository(nodeApp('app'))
    const client = server.clientFor(key)
    const project = await client.projects.create({ body: { name: 'p' } })
    const made: string[] = []
    for (let release = 0; release < 8; release++) {
      made.push((await deployAndSettle(client, project.id, { name: 'web', git_url: app.url })).id)
    }
    await untilAlone(data, String(made[7]))
    await expect
      .poll(async () => (await releasesOnDisk(data)).map((path) => path.split('/').at(-1)).sort(), { timeout: 30_000 })
      .toEqual(made.slice(2))
    const params = { project_id: project.id }
    const read = await client.deployments.get({ params: { ...params, id: String(made[0]) } })
    expect(read.status).toBe('superseded')
    await expect(client.deployments.rollback({ params: { ...params, id: String(made[1]) } })).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('not kept'),
    })
  })
})

it('/healthz answers that the server is alive and /readyz whether it is ready, from its start on', async () => {
  await server.stop()
  const starting = serverProcess(data, { FAIRLEAD_PORT: port })
  const seen = new Set<number>()
  await expect
    .poll(
      async () => {
        const [alive, ready] = await Promise.all(
          ['healthz', 'readyz'].map((path) => fetch(`${server.url}/${path}`).catch(() => undefined)),
        )
        if (ready !== undefined) seen.add(ready.status)
        return alive?.status === 200 && ready?.status === 200
      },
      { interval: 5, timeout: 30_000 },
    )
    .toBe(true)
  server = await starting
  expect([...seen]).toEqual([503, 200])
  expect(await readFile(join(data, 'secret.key'), 'utf8')).toMatch(/^\S{44}\n$/)
})
