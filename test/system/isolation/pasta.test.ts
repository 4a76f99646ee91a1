import { networkInterfaces } from 'node:os'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { groupProcesses, readStat, variableOf } from '../../../server/src/platform/processes.ts'
import { createdDatabase } from '../../harness/databases.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { hostService, noPasta, otherMachine } from '../../harness/networks.ts'
import { noBubblewrap, noOrdinaryUser, ordinaryUser, skipped } from '../../harness/ordinary-user.ts'
import { serverProcess, signal } from '../../harness/process.ts'
import { repository } from '../../harness/repository.ts'
import { isRoot } from '../../harness/temporary.ts'
import { ordinaryServer } from './ordinary-server.ts'

/*
 * The networks of apps on a server that does not run as root. The attacks in `test/system/attacks` test their
 * isolation.
 */

const why = (await noOrdinaryUser()) ?? (await noBubblewrap()) ?? (await noPasta())
if (why !== null) skipped('networks of apps on a server that is not root', why)

/** An app that returns its address, connects to `?to=host:port`, and ends at `/end`. */
const code = `require('node:http').createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://app')
  if (pathname === '/end') process.exit(3)
  const to = searchParams.get('to')
  if (to === null) return response.end('app at ' + request.socket.localAddress)
  const at = to.lastIndexOf(':')
  const socket = require('node:net').connect({ host: to.slice(0, at), port: Number(to.slice(at + 1)), timeout: 30000 })
  socket.on('connect', () => response.end('connected') && socket.destroy())
  socket.on('timeout', () => response.end('ETIMEDOUT') && socket.destroy())
  socket.on('error', (error) => response.end(error.code))
}).listen(...[process.env.OTHER_PORT ?? process.env.PORT, process.env.ADDRESS].filter(Boolean))`

const text = async (url: string) => (await fetch(url)).text()

describe.skipIf(why !== null)('apps of a server that does not run as root', () => {
  let given: Awaited<ReturnType<typeof ordinaryServer>>
  beforeAll(async () => {
    given = await ordinaryServer()
  })
  afterAll(() => given?.[Symbol.asyncDispose]())

  async function start(name: string, env_vars: Record<string, string> = {}, client = given.client) {
    await using source = await repository({
      'package.json': JSON.stringify({ scripts: { build: 'true', start: 'node server.js' } }),
      'server.js': code,
    })
    const made = await deployAndSettle(client, given.project, { name, git_url: source.url, env_vars })
    expect(made.failure).toBeNull()
    return { ...made, reaches: (to: string) => text(`${made.url}?to=${encodeURIComponent(to)}`) }
  }

  /** Returns the processes that hold the network of an app. Root also sees the variables of pasta itself. */
  const holdersOf = async (id: string) => {
    const found = await groupProcesses((pid) =>
      readStat(pid)?.command === 'sleep' && variableOf(pid, 'FAIRLEAD_NETWORK')?.includes(id) ? 'holder' : null,
    )
    return found.get('holder') ?? []
  }

  test('the server reports that they have separate networks', () => {
    const line = given.server.log.find((each) => each['msg'] === 'isolation of builds and apps')
    expect(line).toMatchObject({ networks: true })
  })

  test.each(['', '127.0.0.1', '::1', 'localhost', '0.0.0.0', '::'])(
    'an app that listens on %j is reached',
    async (address) => {
      const { url, id } = await start('listens', address === '' ? {} : { ADDRESS: address })
      expect(await text(url)).toContain(address === '::1' ? 'app at ::1' : 'app at')
      expect(await holdersOf(id)).toHaveLength(1)
    },
  )

  test.each(['127.0.0.1', '::1'])(
    'an app that listens on another port of %s is served there, with a warning',
    async (address) => {
      const { id, url } = await start('elsewhere', { ADDRESS: address, OTHER_PORT: '3456' })
      expect(await text(url)).toContain('app at')
      const params = { project_id: given.project, id }
      const log = await given.client.deployments.logs({ params, query: { stream: 'runtime' } })
      expect(await log.text()).toMatch(/Warning: the app listens on port 3456, not on \d+, the port in PORT/)
    },
  )

  test('they reach databases by their connection strings, and no other service of the machine', async () => {
    const { client, project, server } = given
    const made = await createdDatabase(client, project)
    const { hostname, port } = new URL(made.connection_string)
    const own = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
    await using service = await hostService('0.0.0.0')
    const app = await start('connects')
    expect(await app.reaches(`${hostname}:${port}`)).toBe('connected')
    expect(await app.reaches(new URL(server.url).host)).toBe('connected')
    for (const { address } of own.filter(({ family }) => family === 'IPv4')) {
      await app.reaches(`${address}:${service.port}`)
      expect(service.sockets.size, address).toBe(0)
    }
  })

  test.skipIf(!isRoot)('they reach other machines, and no link-local address', async () => {
    await using outside = await otherMachine('169.254.79.2')
    const app = await start('outside')
    expect(await app.reaches(`${outside.addresses.public}:80`)).toBe('connected')
    // In local mode, as here, private addresses are allowed.
    expect(await app.reaches(`${outside.addresses.private}:80`)).toBe('connected')
    expect(await app.reaches(`${outside.addresses.metadata}:80`)).toBe('ECONNREFUSED')
  })

  test('an ended app leaves no network, and an app that lost its network is restarted', async () => {
    const { client, project } = given
    const { id, url } = await start('loses')
    const [holder = Number.NaN] = await holdersOf(id)
    signal(readStat(holder)?.parent, 'SIGKILL')
    await expect
      .poll(async () => (await holdersOf(id)).filter((pid) => pid !== holder), { timeout: 30_000 })
      .toHaveLength(1)
    await expect.poll(() => text(url).catch(String), { timeout: 30_000 }).toContain('app at')
    await client.deployments.stop({ params: { project_id: project, id } })
    await expect.poll(() => holdersOf(id), { timeout: 20_000 }).toEqual([])
  })

  test('a later server adopts them after kill -9, and leaves nothing when it stops', async () => {
    await using other = await ordinaryServer()
    const before = given
    given = other
    try {
      const { id, url } = await start('adopted')
      const holders = await holdersOf(id)
      await other.server.kill()
      expect(await text(url)).toContain('app at')
      const port = new URL(other.server.url).port
      const later = await serverProcess(other.data, { FAIRLEAD_PORT: port }, ordinaryUser)
      expect(await text(url)).toContain('app at')
      expect(await holdersOf(id)).toEqual(holders)
      const detail = await later.clientFor(other.key).deployments.get({ params: { project_id: other.project, id } })
      expect(detail.status).toBe('running')
      expect(await later.stop()).toBe(0)
      await expect.poll(() => holdersOf(id), { timeout: 20_000 }).toEqual([])
    } finally {
      given = before
    }
  })
})
