import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { usableControllers } from '../../../server/src/platform/cgroups.ts'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { mostProcesses } from '../../../server/src/runtimes/limits.ts'
import { buildsFolder, groupName, readHierarchy } from '../../../server/src/runtimes/process/confinement/groups.ts'
import { deployAndSettle, processesOf, settled } from '../../harness/deployments.ts'
import { processesIn } from '../../harness/process.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { ownServer, type TestServer, testServer } from '../../harness/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const hierarchy = await readHierarchy('top')
const usable = hierarchy === null ? [] : await usableControllers(hierarchy)
const missing = ['memory', 'cpu', 'pids', 'freezer'].filter((each) => !usable.some((one) => one === each))
if (missing.length > 0) console.log(`control groups without ${missing.join(', ')} here: what needs them is not tested`)

let server: TestServer
let project: string
const cleanup = new AsyncDisposableStack()

beforeAll(async () => {
  const directory = cleanup.use(await temporaryDirectory())
  const plansFile = join(directory.path, 'plans.json')
  // So small that tests exceed it quickly.
  const plans = Object.entries(shippedPlans).map(([name, plan]) => [name, { ...plan, memory_mb: 128, apps: 50 }])
  // So large that Node ends at its own limit first, however it collects its garbage.
  const roomy = { roomy: { ...shippedPlans.starter, memory_mb: 1_500, apps: 50 } }
  await writeFile(plansFile, JSON.stringify({ ...Object.fromEntries(plans), ...roomy }))
  server = cleanup.use(
    await ownServer({
      FAIRLEAD_PLANS_FILE: plansFile,
      FAIRLEAD_BUILD_MEMORY_MB: '256',
      FAIRLEAD_SOURCE_MB: '20',
      FAIRLEAD_RELEASE_MB: '60',
      FAIRLEAD_APP_MB: '80',
    }),
  )
  project = (await server.client.projects.create({ body: { name: 'limits' } })).id
})
afterAll(() => cleanup.disposeAsync())

const building = (script: string) => ({
  'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
  'build.js': script,
  'server.js': nodeApp('fine')['server.js'] ?? '',
})
const starting = (script: string) => ({
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': script,
})

let count = 0
async function outcomeOf(
  files: Readonly<Record<string, string>>,
  { into = project, variables = {} }: { readonly into?: string; readonly variables?: Record<string, string> } = {},
) {
  await using source = await repository(files)
  count += 1
  const body = { name: `app ${count}`, git_url: source.url, env_vars: variables }
  return await deployAndSettle(server.client, into, body)
}

/** Expects that a running app has failed by itself. */
async function untilFailed(id: string) {
  const read = () => server.client.deployments.get({ params: { project_id: project, id } })
  await expect.poll(async () => (await read()).status, { timeout: 90_000, interval: 250 }).toBe('failed')
  return read()
}

/** Allocates Node's own heap, not buffers. */
const heapHog = 'const kept = []; setInterval(() => kept.push(Array.from({ length: 1e5 }, (_, n) => ({ n }))), 1)'
const hog = 'const kept = []; setInterval(() => kept.push(Buffer.alloc(16e6, 1)), 20)'

describe('memory', () => {
  test('a build that exceeds it is ended, and the failure says why', async () => {
    const { failure } = await outcomeOf(building(hog))
    expect(failure).toMatchObject({ stage: 'build', code: 'out_of_memory' })
    expect(failure?.message).toMatch(/more than the 256 MB .*: it used \d+ MB .* FAIRLEAD_BUILD_MEMORY_MB/)
  })

  test('an app that exceeds it before it answers is ended, and the failure says why', async () => {
    const { failure } = await outcomeOf(starting(hog))
    expect(failure).toMatchObject({ stage: 'start', code: 'out_of_memory' })
    expect(failure?.message).toMatch(/more than the 128 MB .*: it used \d+ MB .* a larger plan/)
  })

  test('an app that exceeds it repeatedly while it runs is given up, and the failure says why', async () => {
    // The first time on request, once the deployment runs. It does not matter whether a later start answers.
    const app = await outcomeOf(
      starting(`const { existsSync, writeFileSync } = require('node:fs')
const mark = process.env.HOME + '/told'
const take = () => { ${hog} }
require('node:http').createServer((request, response) => {
  if (request.url !== '/hog') return response.end()
  writeFileSync(mark, '')
  response.end('told', take)
}).listen(process.env.PORT)
if (existsSync(mark)) setTimeout(take, 1000)`),
    )
    expect(app.failure).toBeNull()
    expect(await (await fetch(`${app.url}/hog`)).text()).toBe('told')
    const { status, failure } = await untilFailed(app.id)
    expect({ status, failure }).toMatchObject({ status: 'failed', failure: { stage: 'run', code: 'out_of_memory' } })
    expect(failure?.message).toContain('128 MB')
    expect(failure?.message).toContain('again and again')
  })

  test('an app that Node itself ends at its heap limit gets a message about it', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'roomy', plan: 'roomy' } })
    // The limit of the server would be ten times as much, which takes long to reach.
    const variables = { NODE_OPTIONS: '--max-old-space-size=100' }
    const { failure } = await outcomeOf(starting(heapHog), { into: id, variables })
    expect(failure?.stage).toBe('start')
    expect(failure?.message).toMatch(/Node's heap reached its limit when that had \d+ MB.* NODE_OPTIONS/)
  })

  test('the memory of several processes counts together', async () => {
    const worker = 'const kept = Buffer.alloc(90e6, 1); setInterval(() => kept.length, 1e3)'
    const { failure } = await outcomeOf(
      starting(`const { spawn } = require('node:child_process')
for (let n = 0; n < 3; n++) spawn(process.execPath, ['-e', ${JSON.stringify(worker)}])
setInterval(() => {}, 1e3)`),
    )
    expect(failure).toMatchObject({ stage: 'start', code: 'out_of_memory' })
  })
})

describe.skipIf(!usable.includes('pids'))('processes', () => {
  const bomb = `const { spawn } = require('node:child_process')
const grow = () => { for (let n = 0; n < 4; n++) spawn('/bin/sleep', ['600'], { detached: true, stdio: 'ignore', env: {} }).on('error', () => process.exit(3)).unref() }
setInterval(grow, 1)`

  test('a build that forks without end is ended, and leaves nothing', async () => {
    const { id, failure } = await outcomeOf(building(bomb))
    expect(failure).toMatchObject({ stage: 'build', code: 'too_many_processes' })
    expect(failure?.message).toContain(String(mostProcesses))
    expect(await groupProcesses(id)).toEqual([])
  })

  test('a real fork bomb that ignores signals is ended', async () => {
    const bomb = 'trap "" TERM INT HUP; f() { f & f; }; for n in 1 2 3 4; do f & done; wait'
    await using source = await repository(
      building(`require('node:child_process').spawnSync('/bin/sh', ['-c', ${JSON.stringify(bomb)}], { env: {} })`),
    )
    const params = { project_id: project }
    const { id } = await server.client.deployments.create({ params, body: { name: 'bomb', git_url: source.url } })
    // It keeps all cores busy, so it is canceled as soon as it has grown.
    await expect.poll(async () => (await groupProcesses(id)).length, { timeout: 90_000 }).toBeGreaterThan(100)
    await server.client.deployments.cancel({ params: { ...params, id } })
    expect((await settled(server.client, project, id)).status).toBe('canceled')
    await expect.poll(() => groupProcesses(id)).toEqual([])
  })

  test('a build that hides a daemon leaves nothing: no environment, a new session, two forks', async () => {
    const token = randomUUID()
    const { status } = await outcomeOf(
      building(`const { spawn } = require('node:child_process')
const inner = "require('node:fs').writeFileSync('begun', ''); setInterval(() => {}, 1000)"
const outer = "require('node:child_process').spawn(process.execPath, ['-e', process.argv[1], process.argv[2]], { env: {}, detached: true, stdio: 'ignore' }).unref()"
spawn(process.execPath, ['-e', outer, inner, ${JSON.stringify(token)}], { env: {}, detached: true, stdio: 'ignore' }).unref()
const { existsSync } = require('node:fs')
const look = setInterval(() => existsSync('begun') && clearInterval(look), 10)`),
    )
    expect(status).toBe('running')
    expect(await processesIn(token)).toEqual([])
  })

  /** Of every existing group of the deployment. */
  async function groupProcesses(id: string): Promise<string[]> {
    const parent = hierarchy?.folders.pids ?? ''
    const found: string[] = []
    for (const each of await readdir(parent)) {
      if (!each.startsWith('fairlead-')) continue
      for (const group of [`${id}.build`, join(buildsFolder, `${id}.build`), `${id}.app`]) {
        const text = await readFile(join(parent, each, group, 'cgroup.procs'), 'utf8').catch(() => '')
        found.push(...text.split('\n').filter(Boolean))
      }
    }
    return found
  }
})

// Programs write a few dozen megabytes a second: faster writes would only keep the cores busy until the next look.
describe('disk', () => {
  test('a build that fills the disk is ended during the write', async () => {
    const { id, failure } = await outcomeOf(
      building(`const { appendFileSync } = require('node:fs')
setInterval(() => appendFileSync('filler', Buffer.alloc(4e6)), 100)`),
    )
    expect(failure).toMatchObject({ stage: 'build', code: 'too_large' })
    const apps = await readdir(join(server.dataDirectory, 'apps'))
    expect(apps.filter((app) => existsSync(join(server.dataDirectory, 'apps', app, 'releases', id)))).toEqual([])
  })

  test('a build that fills its temporary folder or its home is ended, too', async () => {
    const { failure } = await outcomeOf(
      building(`const { appendFileSync } = require('node:fs')
setInterval(() => { for (const folder of [process.env.HOME, process.env.TMPDIR]) appendFileSync(folder + '/filler', Buffer.alloc(3e6)) }, 100)`),
    )
    expect(failure).toMatchObject({ stage: 'build', code: 'too_large' })
  })

  const filling = (start: string) =>
    starting(`const { appendFileSync, mkdirSync } = require('node:fs')
require('node:http').createServer((request, response) => {
  response.end('runs')
  if (request.url === '/fill') { ${start} }
}).listen(process.env.PORT)`)

  test('an app that fills its folder, its home or folders too deep for a path is stopped, and the failure says why', async () => {
    const ways = [
      "setInterval(() => appendFileSync('filler', Buffer.alloc(4e6)), 100)",
      "setInterval(() => appendFileSync(process.env.HOME + '/filler', Buffer.alloc(4e6)), 100)",
      `process.chdir(process.env.TMPDIR)
for (let n = 0; n < 60; n += 1) { mkdirSync('x'.repeat(100)); process.chdir('x'.repeat(100)) }
setInterval(() => appendFileSync('filler', Buffer.alloc(4e6)), 100)`,
    ]
    const apps = await Promise.all(ways.map((start) => outcomeOf(filling(start))))
    expect(apps.map(({ failure }) => failure)).toEqual(ways.map(() => null))
    for (const { url } of apps) expect(await (await fetch(`${url}/fill`)).text()).toBe('runs')
    for (const { id, url } of apps) {
      const { failure } = await untilFailed(id)
      expect(failure).toMatchObject({ stage: 'run', code: 'too_large' })
      expect(failure?.message).toContain('80 MB')
      await expect.poll(async () => (await fetch(url)).status).toBe(503)
      await expect.poll(() => processesOf(id)).toEqual([])
      await server.client.deployments.delete({ params: { project_id: project, id } })
    }
  }, 300_000)

  test('an app may use the disk space of its project’s plan, and is stopped when the plan shrinks', async () => {
    await using directory = await temporaryDirectory()
    const plansFile = join(directory.path, 'plans.json')
    const small = { ...shippedPlans.free, app_gb: 0.05 }
    await writeFile(plansFile, JSON.stringify({ ...shippedPlans, small, large: { ...small, app_gb: 0.2 } }))
    await using own = await ownServer({ FAIRLEAD_PLANS_FILE: plansFile })
    const { client } = own
    await using source = await repository(filling("appendFileSync(process.env.HOME + '/filler', Buffer.alloc(1e8))"))
    const fill = async (plan: string) => {
      const { id: project_id } = await client.projects.create({ body: { name: plan, plan } })
      const { id, url } = await deployAndSettle(client, project_id, { name: 'app', git_url: source.url })
      expect(await (await fetch(`${url}/fill`)).text()).toBe('runs')
      const [app] = (await client.apps.list({ params: { project_id } })).apps
      return {
        project: { project_id },
        deployment: () => client.deployments.get({ params: { project_id, id } }),
        most: async () => (await client.volumes.list({ params: { project_id, app_id: app?.id ?? '' } })).max_bytes,
      }
    }
    const roomy = await fill('large')
    const tight = await fill('small')
    const stopped = { status: 'failed', failure: { stage: 'run', code: 'too_large' } }
    // The pause between two checks of the disk grows with the duration of one.
    const looked = { timeout: 240_000, interval: 250 }
    expect([await tight.most(), await roomy.most()]).toEqual([50_000_000, 200_000_000])
    await expect.poll(tight.deployment, looked).toMatchObject(stopped)
    expect((await tight.deployment()).failure?.message).toMatch(/more than the 50 MB on the disk .* a larger plan/)
    expect((await roomy.deployment()).status).toBe('running')

    await client.projects.update({ params: roomy.project, body: { plan: 'small' } })
    expect(await roomy.most()).toBe(50_000_000)
    await expect.poll(roomy.deployment, looked).toMatchObject(stopped)
  }, 600_000)
})

test('the server still deploys and serves other apps after all this', async () => {
  const fine = await outcomeOf(nodeApp('alive'))
  expect(fine.failure).toBeNull()
  expect(await (await fetch(fine.url)).text()).toBe('alive')
})

test.skipIf(!usable.includes('cpu'))('a server that has stopped leaves no control groups', async () => {
  const folders = Object.values(hierarchy?.folders ?? {})
  let name = ''
  {
    await using other = await testServer()
    name = groupName(other.dataDirectory)
    const { id } = await other.client.projects.create({ body: { name: 'a' } })
    await using app = await repository(nodeApp('fine'))
    await deployAndSettle(other.client, id, { name: 'a', git_url: app.url })
    expect(folders.map((folder) => existsSync(join(folder, name)))).not.toContain(false)
  }
  expect(folders.map((folder) => existsSync(join(folder, name)))).not.toContain(true)
})
