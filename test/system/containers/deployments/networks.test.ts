import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createdDatabase } from '../../../harness/databases.ts'
import { deployAndSettle } from '../../../harness/deployments.ts'
import { baseImage, importBaseImage, noDocker, startDockerd, type TestDockerd } from '../../../harness/docker.ts'
import { noNetworks, system } from '../../../harness/networks.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { type OwnServerWithProject, ownServerWithProject } from '../../../harness/project.ts'
import { noRegistry, startRegistry, type TestRegistry } from '../../../harness/registry.ts'
import { repository } from '../../../harness/repository.ts'
import { startRun } from '../../../harness/runs.ts'

const why = (await noDocker()) ?? (await noNetworks()) ?? (await noRegistry())
if (why !== null) skipped('networks of apps in containers', why)

/**
 * Ends unless PostgreSQL, and the app in `FIRST`, answers its first request, like an app that needs them at its start.
 * Then it listens, one of the two apps only on loopback, and fetches addresses on request.
 */
const app = `const { hostname, port } = new URL(process.env.DATABASE_URL)
const socket = require('node:net').connect(Number(port), hostname, () => socket.write(Buffer.from('0000000804d2162f', 'hex')))
socket.on('error', (error) => { console.log('no database: ' + error.code); process.exit(1) })
socket.once('data', async (answer) => {
  socket.destroy()
  if (process.env.FIRST) await fetch(process.env.FIRST)
  require('node:http').createServer(async (request, response) => {
    const asked = new URL(request.url, 'http://app').searchParams.get('ask')
    if (asked === null) return response.end(process.env.NAME + ' ' + answer)
    const text = (one) => one.text()
    response.end(await fetch(asked, { signal: AbortSignal.timeout(5000) }).then(text, (error) => 'none: ' + error.cause?.code))
  }).listen(process.env.PORT, process.env.NAME === 'shop' ? '127.0.0.1' : undefined)
})`

/**
 * A process that fetches addresses on request. It shows its clients, its port on all addresses, and the names that it
 * knows.
 */
const process = `require('node:http').createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://app')
  const asked = searchParams.get('ask')
  if (pathname === '/who') return response.end('process to ' + request.socket.remoteAddress.replace('::ffff:', ''))
  if (pathname === '/port') return response.end(process.env.PORT)
  if (asked === null) return response.end(require('node:fs').readFileSync('/etc/hosts', 'utf8'))
  const text = (one) => one.text()
  response.end(await fetch(asked, { signal: AbortSignal.timeout(5000) }).then(text, (error) => 'none: ' + error.cause?.code))
}).listen(process.env.PORT)`

describe.skipIf(why !== null)('apps of images', () => {
  const stack = new AsyncDisposableStack()
  let dockerd: TestDockerd
  let registry: TestRegistry
  let given: OwnServerWithProject

  beforeAll(async () => {
    dockerd = stack.use(await startDockerd())
    registry = stack.use(await startRegistry())
    await importBaseImage(dockerd.engine, { 'app.js': app }, { changes: ['CMD ["node", "app.js"]'] })
    await registry.push(dockerd.engine, baseImage, 'app:1')
    given = stack.use(await ownServerWithProject({ DOCKER_HOST: dockerd.host }))
  }, 180_000)
  afterAll(() => stack.disposeAsync(), 120_000)

  it('find their database at their start, and each other by name; their network ends with the last', async () => {
    const { client, projectId } = given
    const { connection_string } = await createdDatabase(client, projectId)
    const deploy = async (name: string) => {
      const body = {
        ...{ name, image: `${registry.host}/app:1` },
        env_vars: { DATABASE_URL: connection_string, NAME: name },
      }
      const deployed = await deployAndSettle(client, projectId, body)
      expect(deployed).toMatchObject({ status: 'running', failure: null })
      return deployed.url
    }
    const [shop, api] = [await deploy('shop'), await deploy('Orders API')]
    const read = async (url: string, ask?: string) =>
      (await fetch(ask === undefined ? url : `${url}?ask=${encodeURIComponent(ask)}`)).text()
    expect(await read(shop)).toBe('shop S')
    expect(await read(api)).toBe('Orders API S')
    expect(await read(shop, 'http://orders-api.internal:8080/')).toBe('Orders API S')
    // Only the gateway reaches listeners on loopback.
    expect(await read(api, 'http://shop.internal:8080/')).toBe('none: ECONNREFUSED')
    expect(await read(shop, 'http://nobody.internal:8080/')).toMatch(/^none: E/)
    // The public address of an app works from everywhere.
    expect(await read(shop, api)).toBe('Orders API S')

    const bridges = async () => (await system('ip', '-br', 'link')).match(/^fc\w+/gm) ?? []
    const networks = async () => {
      const all = await dockerd.engine.call<{ Labels: object; Options: Record<string, string> }[]>({
        method: 'GET',
        path: ['networks'],
      })
      return all
        .flatMap(({ Options }) => Options['com.docker.network.bridge.name'] ?? [])
        .filter((name) => name.startsWith('fc'))
    }
    const [bridge = '', ...others] = await networks()
    expect(others).toEqual([])
    expect(await bridges()).toContain(bridge)
    const { apps } = await client.apps.list({ params: { project_id: projectId } })
    for (const { id } of apps) await client.apps.delete({ params: { project_id: projectId, id } })
    await expect.poll(networks, { timeout: 60_000 }).toEqual([])
    expect(await bridges()).not.toContain(bridge)
  }, 240_000)

  it('are reachable by name only from processes of their project, even after a restart of the server', async () => {
    const { client, projectId, server } = given
    const other = await client.projects.create({ body: { name: 'Other' } })
    const { connection_string } = await createdDatabase(client, projectId, { name: 'other' })
    await using source = await repository({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': process,
    })
    const deploy = async (project: string, body: Parameters<typeof deployAndSettle>[2]) => {
      const deployed = await deployAndSettle(client, project, body)
      expect(deployed).toMatchObject({ status: 'running', failure: null })
      return deployed.url
    }
    const read = async (url: string, ask?: string) =>
      (await fetch(ask === undefined ? url : `${url}?ask=${encodeURIComponent(ask)}`)).text()
    const web = await deploy(projectId, { name: 'web', git_url: source.url })
    expect(await read(web, 'http://cache.internal:8080/')).toMatch(/^none: E/)
    const image = {
      ...{ name: 'cache', image: `${registry.host}/app:1` },
      env_vars: { DATABASE_URL: connection_string, NAME: 'cache' },
    }
    await deploy(projectId, image)
    expect(await read(web, 'http://cache.internal:8080/')).toBe('cache S')
    // A later release knows it, too.
    const later = await deploy(projectId, { name: 'later', git_url: source.url })
    expect(await read(later, 'http://cache.internal:8080/')).toBe('cache S')

    const [, address = ''] = /^(\S+) cache\.internal$/m.exec(await read(web)) ?? []
    const stranger = await deploy(other.id, { name: 'stranger', git_url: source.url })
    expect(await read(stranger, 'http://cache.internal:8080/')).toMatch(/^none: E/)
    expect(await read(stranger, `http://${address}:8080/`)).toMatch(/^none: E/)
    expect(await read(web, `http://${address}:8080/`)).toBe('cache S')

    await server.restart()
    await expect.poll(() => read(web, 'http://cache.internal:8080/')).toBe('cache S')
    await deploy(projectId, image)
    await expect.poll(() => read(web, 'http://cache.internal:8080/')).toBe('cache S')
    const { apps } = await client.apps.list({ params: { project_id: projectId } })
    const id = apps.find(({ name }) => name === 'cache')?.id ?? ''
    await client.apps.delete({ params: { project_id: projectId, id } })
    await expect.poll(() => read(web), { timeout: 60_000 }).not.toContain('cache.internal')
  }, 240_000)

  it('reach only the processes of their project by name, even after a restart of the server', async () => {
    const { client, projectId, server } = given
    const other = await client.projects.create({ body: { name: 'Another' } })
    await using source = await repository({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': process,
    })
    await using loopback = await repository({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': process.replace('listen(process.env.PORT)', "listen(process.env.PORT, '127.0.0.1')"),
    })
    const deploy = async (project: string, body: Parameters<typeof deployAndSettle>[2]) => {
      const deployed = await deployAndSettle(client, project, body)
      expect(deployed).toMatchObject({ status: 'running', failure: null })
      return deployed.url
    }
    const image = async (project: string, name: string) => {
      const { connection_string } = await createdDatabase(client, project, { name })
      return { name, image: `${registry.host}/app:1`, env_vars: { DATABASE_URL: connection_string, NAME: name } }
    }
    const read = async (url: string, ask?: string) =>
      (await fetch(ask === undefined ? url : `${url}?ask=${encodeURIComponent(ask)}`)).text()

    const backend = await deploy(projectId, { name: 'backend', git_url: source.url })
    const port = await read(`${backend}/port`)
    const [at, who] = [`http://backend.internal:${port}`, /^process to 10\./]
    const proxyImage = await image(projectId, 'proxy')
    // The first container of the project finds it at its start.
    const { env_vars } = proxyImage
    const proxy = await deploy(projectId, { ...proxyImage, env_vars: { ...env_vars, FIRST: `${at}/who` } })
    await deploy(projectId, { name: 'private', git_url: loopback.url })
    // It sees the container's own address, not the gateway's.
    expect(await read(proxy, `${at}/who`)).toMatch(who)
    expect(await read(`${backend}/who`)).toBe('process to 127.0.0.1')
    expect(await read(proxy, `http://private.internal:${port}/who`)).toBe('none: ECONNREFUSED')

    const [, address = ''] = /^(\S+) backend\.internal$/m.exec(await read(backend)) ?? []
    expect(await read(proxy, `http://${address}:${port}/who`)).toMatch(who)
    // A command beside the app knows the names as well. Neither the command nor the app changes them, and each still
    // finds itself.
    const script = `const { appendFileSync, writeFileSync } = require('node:fs')
for (const write of [appendFileSync, writeFileSync]) try { write('/etc/hosts', 'x'); console.log('written') } catch { console.log('refused') }
require('node:dns').lookup(require('node:os').hostname(), (error) => console.log(error?.code ?? 'found'))
fetch('${at}/who').then((answer) => answer.text()).then(console.log)`
    const { apps: mine } = await client.apps.list({ params: { project_id: projectId } })
    const proxyId = mine.find(({ name }) => name === 'proxy')?.id ?? ''
    const run = await startRun(given, proxyId, ['node', '-e', script])
    expect(await run.ended, run.printed.errors).toMatchObject({ code: 0 })
    expect(run.printed.output.split('\n').sort()).toEqual([
      ...['', 'found', expect.stringMatching(who), 'refused', 'refused'],
    ])
    const stranger = await deploy(other.id, await image(other.id, 'stranger'))
    expect(await read(stranger, `${at}/who`)).toMatch(/^none: E/)
    expect(await read(stranger, `http://${address}:${port}/who`)).toBe('none: ECONNREFUSED')

    await server.restart()
    await expect.poll(() => read(proxy, `${at}/who`)).toMatch(who)
    // Another release has another address.
    await deploy(projectId, { name: 'backend', git_url: source.url })
    await expect.poll(() => read(proxy, `${at}/who`)).toMatch(who)
    // And so has another release of the container's app.
    const later = await deploy(projectId, proxyImage)
    expect(await read(later, `${at}/who`)).toMatch(who)
    const { apps } = await client.apps.list({ params: { project_id: projectId } })
    const id = apps.find(({ name }) => name === 'backend')?.id ?? ''
    await client.apps.delete({ params: { project_id: projectId, id } })
    await expect.poll(() => read(later, `${at}/who`), { timeout: 60_000 }).toMatch(/^none: E/)

    const names = join(server.dataDirectory, 'runtime', 'names')
    expect(await readdir(names)).toEqual(expect.arrayContaining([projectId, other.id]))
    for (const { id: app } of (await client.apps.list({ params: { project_id: projectId } })).apps)
      await client.apps.delete({ params: { project_id: projectId, id: app } })
    await expect.poll(() => readdir(names), { timeout: 60_000 }).toEqual([other.id])
  }, 240_000)
})
