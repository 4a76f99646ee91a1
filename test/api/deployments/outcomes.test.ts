import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { followLog } from '../../../server/src/commands/client/logs.ts'
import { deployAndSettle, settled } from '../../harness/deployments.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'
import { ownServer, type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let app: Repository
let projectId: string
beforeAll(async () => {
  server = await ownServer({ FAIRLEAD_START_TIMEOUT: '8', FAIRLEAD_FETCH_TIMEOUT: '20' })
  app = await repository(nodeApp('hello'))
  projectId = (await server.client.projects.create({ body: { name: 'apps', plan: 'enterprise' } })).id
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await app[Symbol.asyncDispose]()
})

describe.concurrent('a deployment that cannot succeed', () => {
  let apps = 0
  const failureOf = async (files: Record<string, string>, branch?: string) => {
    await using source = await repository(files)
    const body = { name: `broken ${++apps}`, git_url: source.url, ...(branch === undefined ? {} : { branch }) }
    const deployment = await deployAndSettle(server.client, projectId, body)
    expect(deployment.status).toBe('failed')
    expect(deployment.finished_at).not.toBeNull()
    expect(await releasesOnDisk(server.dataDirectory)).not.toContainEqual(expect.stringContaining(deployment.id))
    return deployment.failure
  }

  it('fails with a reason that names an unknown branch', async () => {
    expect(await failureOf(nodeApp('x'), 'nowhere')).toMatchObject({ stage: 'fetch', code: 'unknown_branch' })
  })

  it('fails with a reason when the repository has no commit', async () => {
    expect(await failureOf({})).toMatchObject({ stage: 'fetch', code: 'no_default_branch' })
  })

  it('fails with a reason that names git_url when the host refuses', async () => {
    const deployment = await deployAndSettle(server.client, projectId, {
      name: 'unreachable',
      git_url: 'http://127.0.0.1:9/a.git',
    })
    expect(deployment.failure).toMatchObject({ stage: 'fetch', code: 'repository_unreachable' })
    expect(deployment.failure?.message).toContain('git_url')
  })

  it('fails with a list of the recognised files when the repository has none of them', async () => {
    const failure = await failureOf({ 'README.txt': 'nothing to run' })
    expect(failure).toMatchObject({ stage: 'plan', code: 'not_recognised' })
    expect(failure?.message).toContain('package.json')
  })

  it('fails with the last lines of a failed build', async () => {
    const failure = await failureOf({
      'package.json': JSON.stringify({
        scripts: { build: 'node build.js', start: 'node server.js' },
      }),
      'build.js': 'console.error("the reason is here"); process.exit(3)',
      'server.js': '',
    })
    expect(failure).toMatchObject({ stage: 'build', code: 'build_failed' })
    expect(failure?.message).toContain('the reason is here')
  })

  it('fails with a reason that names PORT when the app never listens', async () => {
    const failure = await failureOf({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': 'setInterval(() => {}, 1000)',
    })
    expect(failure).toMatchObject({ stage: 'start', code: 'not_listening' })
    expect(failure?.message).toContain('PORT')
  })

  it('reports in the build log, long before it fails, that the app does not listen', async () => {
    await using source = await repository({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': 'setInterval(() => {}, 1000)',
    })
    const body = { name: 'silent', git_url: source.url }
    const { id } = await server.client.deployments.create({ params: { project_id: projectId }, body })
    const lines: string[] = []
    const params = { project_id: projectId, id }
    const followed = new AbortController()
    const print = (line: string) => {
      lines.push(line)
      if (line.includes('does not listen')) followed.abort()
    }
    const say = () => undefined
    await followLog(server.client, { params, query: { stream: 'build' }, print, say, signal: followed.signal })
    expect(lines.at(-1)).toMatch(
      /The app has run for 1 s and does not listen .* The deployment fails if that is so after 8 s/,
    )
    expect((await server.client.deployments.get({ params })).status).toBe('building')
    await server.client.deployments.cancel({ params })
  })

  it('fails early, with a separate reason, when the app listens on other ports', async () => {
    const listen = 'require("node:http").createServer().listen(0, function () { console.log(this.address()) })'
    const failure = await failureOf({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': `${listen};${listen}`,
    })
    expect(failure).toMatchObject({ stage: 'start', code: 'wrong_port' })
    expect(failure?.message).toMatch(/the ports \d+, \d+, not on the port in PORT \(\d+ this time\)/)
  })

  it('fails with the exit code and the last lines of an app that exits', async () => {
    const failure = await failureOf({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': 'console.error("no database given"); process.exit(7)',
    })
    expect(failure).toMatchObject({ stage: 'start', code: 'app_exited' })
    expect(failure?.message).toContain('code 7')
    expect(failure?.message).toContain('no database given')
  })

  it('fails with advice when an app finishes without listening', async () => {
    const failure = await failureOf({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': 'module.exports = {}',
    })
    expect(failure).toMatchObject({ stage: 'start', code: 'app_exited' })
    expect(failure?.message).toContain('ended with code 0 without listening')
  })

  it('fails with the status of an app that answers with errors', async () => {
    const failure = await failureOf({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js':
        'require("node:http").createServer((q, r) => { r.statusCode = 500; r.end() }).listen(process.env.PORT)',
    })
    expect(failure).toMatchObject({ stage: 'start', code: 'unhealthy' })
    expect(failure?.message).toContain('500')
  })

  it('leaves the running release and its address unchanged', async () => {
    const good = await deployAndSettle(server.client, projectId, { name: 'steady', git_url: app.url })
    await using source = await repository({ 'README.txt': 'nothing' })
    const bad = await deployAndSettle(server.client, projectId, { name: 'steady', git_url: source.url })
    expect(bad.status).toBe('failed')
    expect(await (await fetch(good.url)).text()).toBe('hello')
    const { deployments } = await server.client.deployments.list({ params: { project_id: projectId } })
    expect(deployments.find(({ id }) => id === good.id)?.status).toBe('running')
  })
})

it('a deployment does not wait for another app that is slow to start', async () => {
  await using patient = await testServer()
  const { id: project_id } = await patient.client.projects.create({ body: { name: 'p' } })
  const params = { project_id }
  await using silent = await repository({
    'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
    'server.js': 'setInterval(() => {}, 1000)',
  })
  const slow = await patient.client.deployments.create({ params, body: { name: 'slow', git_url: silent.url } })
  const quick = await deployAndSettle(patient.client, project_id, { name: 'quick', git_url: app.url })
  expect(quick.status).toBe('running')
  const { status } = await patient.client.deployments.get({ params: { ...params, id: slow.id } })
  expect(status).toBe('building')
})

describe('a deployment that succeeds', () => {
  it('serves a static site', async () => {
    await using source = await repository({ 'index.html': '<h1>static</h1>' })
    const deployment = await deployAndSettle(server.client, projectId, { name: 'static', git_url: source.url })
    expect(deployment.failure).toBeNull()
    const response = await fetch(deployment.url)
    expect(response.headers.get('content-type')).toContain('text/html')
    expect(await response.text()).toBe('<h1>static</h1>')
  })
})

describe('a hostile app', () => {
  const deployServer = async (serverJs: string) => {
    await using source = await repository({
      'package.json': JSON.stringify({ name: 'a\u0000b', scripts: { start: 'node server.js' } }),
      'server.js': serverJs,
    })
    // Awaited here, or the repository would be removed before the fetch.
    return await deployAndSettle(server.client, projectId, { name: 'hostile', git_url: source.url })
  }

  it.each([
    ['a NUL', String.raw`process.stdout.write('boom \0\n'); process.exit(1)`],
    ['half a surrogate pair at the cut', `console.log('x' + '😀'.repeat(400)); process.exit(1)`],
    [
      'every control character',
      `process.stdout.write(Buffer.from(Array.from({length: 256}, (_, i) => i))); process.exit(1)`,
    ],
  ])('fails with its actual reason when it prints %s before it ends', async (_, serverJs) => {
    expect((await deployServer(serverJs)).failure).toMatchObject({ stage: 'start', code: 'app_exited' })
  })

  it('is unhealthy at the deadline when it answers with an unrequested upgrade', async () => {
    const deployment = await deployServer(
      `require('node:net').createServer((socket) => { socket.on('error', () => {}); socket.on('data', () => socket.write(
        'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: foo\\r\\nConnection: Upgrade\\r\\n\\r\\n')) }).listen(process.env.PORT)`,
    )
    expect(deployment.failure).toMatchObject({ stage: 'start', code: 'unhealthy' })
  })
})

it('a late job of an old release does not take the address from a newer release', async () => {
  await using source = await repository(nodeApp('old'))
  const old = await server.client.deployments.create({
    params: { project_id: projectId },
    body: { name: 'overtaken', git_url: source.url },
  })
  await settled(server.client, projectId, old.id)
  const newer = await deployAndSettle(server.client, projectId, { name: 'overtaken', git_url: source.url })
  // The same happens when a stop of the server delays the older job until after the newer one.
  await server.database.query(
    "update deployments set status = 'building', started_at = null, finished_at = null where id = $1",
    [old.id],
  )
  await server.database.query(
    "select graphile_worker.add_job('deployments.deploy', json_build_object('deployment_id', $1::text))",
    [old.id],
  )
  expect(await settled(server.client, projectId, old.id)).toMatchObject({ status: 'superseded' })
  const read = await server.client.deployments.get({ params: { project_id: projectId, id: newer.id } })
  expect(read.status).toBe('running')
})
