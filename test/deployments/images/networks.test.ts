import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createdDatabase } from '../../harness/databases.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { baseImage, importBaseImage, noDocker, startDockerd, type TestDockerd } from '../../harness/docker.ts'
import { noNetworks, system } from '../../harness/networks.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { noRegistry, startRegistry, type TestRegistry } from '../../harness/registry.ts'

const why = (await noDocker()) ?? (await noNetworks()) ?? (await noRegistry())
if (why !== null) skipped('networks of apps in containers', why)

/**
 * Ends unless PostgreSQL answers its first request, as an app does that needs its database when it starts. Then it listens, one of the
 * two on loopback alone, and fetches what it is asked for.
 */
const app = `const { hostname, port } = new URL(process.env.DATABASE_URL)
const socket = require('node:net').connect(Number(port), hostname, () => socket.write(Buffer.from('0000000804d2162f', 'hex')))
socket.on('error', (error) => { console.log('no database: ' + error.code); process.exit(1) })
socket.once('data', (answer) => {
  socket.destroy()
  require('node:http').createServer(async (request, response) => {
    const asked = new URL(request.url, 'http://app').searchParams.get('ask')
    if (asked === null) return response.end(process.env.NAME + ' ' + answer)
    const text = (one) => one.text()
    response.end(await fetch(asked, { signal: AbortSignal.timeout(5000) }).then(text, (error) => 'none: ' + error.cause?.code))
  }).listen(process.env.PORT, process.env.NAME === 'shop' ? '127.0.0.1' : undefined)
})`

describe.skipIf(why !== null)('apps of images', () => {
  const stack = new AsyncDisposableStack()
  let dockerd: TestDockerd
  let registry: TestRegistry
  let given: ServerWithProject

  beforeAll(async () => {
    dockerd = stack.use(await startDockerd())
    registry = stack.use(await startRegistry())
    await importBaseImage(dockerd.engine, { 'app.js': app }, { changes: ['CMD ["node", "app.js"]'] })
    await registry.push(dockerd.engine, baseImage, 'app:1')
    given = stack.use(await serverWithProject({ DOCKER_HOST: dockerd.host }))
  }, 180_000)
  afterAll(() => stack.disposeAsync(), 120_000)

  it('find their database as they start, and each other by name; their network ends with the last', async () => {
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
    // The gateway reaches what listens on loopback alone, and nobody else does.
    expect(await read(api, 'http://shop.internal:8080/')).toBe('none: ECONNREFUSED')
    expect(await read(shop, 'http://nobody.internal:8080/')).toMatch(/^none: E/)
    // The public address of an app leads there from everywhere.
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
})
