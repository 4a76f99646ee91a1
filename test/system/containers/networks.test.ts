import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFile, readlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { HostNetwork } from '../../../server/src/runtimes/docker/network/host-network.ts'
import type { ContainerNetworks } from '../../../server/src/runtimes/docker/network/networks.ts'
import { endContainers, noteEngine } from '../../../server/src/runtimes/leftovers.ts'
import { bridgeNamesOf } from '../../../server/src/runtimes/network/addresses.ts'
import { importBaseImage, noDocker, startDockerd, type TestDockerd } from '../../harness/docker.ts'
import { noNetworks, noReach, otherMachine, system } from '../../harness/networks.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import {
  type Asking,
  createContainer,
  inspect,
  openBridges,
  service,
  startAsking,
} from '../../harness/runtimes/docker/bridges.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const why = (await noDocker()) ?? (await noNetworks())
if (why !== null) skipped('networks of containers', why)

describe.skipIf(why !== null)('containers in the networks of their projects', () => {
  const server = randomUUID()
  const names = bridgeNamesOf(`/data/${server}`)
  let dockerd: TestDockerd
  let networks: ContainerNetworks
  let host: HostNetwork
  let started: Asking[] = []
  let database: Awaited<ReturnType<typeof service>>
  let api: Awaited<ReturnType<typeof service>>

  const reach = () => ({
    ...noReach,
    loopback: [{ from: database.port, to: database.port }],
    localOnly: [{ from: database.port, to: database.port }],
    direct: [{ from: api.port, to: api.port }],
  })
  const open = async () => {
    ;({ networks, host } = await openBridges(dockerd.engine, server, reach(), dockerd.directory))
  }
  const start = async (project: string, app: Parameters<typeof startAsking>[2]): Promise<Asking> => {
    const asking = await startAsking({ engine: dockerd.engine, networks, server }, project, app)
    started.push(asking)
    await expect.poll(() => asking.answer().catch(() => ''), { timeout: 20_000 }).toContain(app.name)
    return asking
  }
  const own = async () => {
    const filters = { label: [`app.fairlead.server=${server}`] }
    return dockerd.engine.call<{ Id: string }[]>({ method: 'GET', path: ['networks'], query: { filters } })
  }

  beforeAll(async () => {
    database = await service('database', '127.0.0.1')
    api = await service('api', '0.0.0.0')
    dockerd = await startDockerd({ liveRestore: true })
    await importBaseImage(dockerd.engine)
  }, 120_000)
  beforeEach(open)
  afterEach(async () => {
    for (const each of started) await each.end()
    started = []
    await networks.close()
  }, 60_000)
  afterAll(async () => {
    await dockerd?.[Symbol.asyncDispose]()
    await database?.[Symbol.asyncDispose]()
    await api?.[Symbol.asyncDispose]()
  }, 60_000)

  it('reach each other by name in one project, and nothing of another project', { timeout: 90_000 }, async () => {
    const [one, two, other] = [
      await start('proj_a', { name: 'one' }),
      await start('proj_a', { name: 'two' }),
      await start('proj_b', { name: 'one' }),
    ]
    const outcomes = await Promise.all([
      two.ask('http://one.internal:3000/'),
      one.ask('http://two.internal:3000/'),
      // The name belongs to the same project's app.
      other.ask('http://one.internal:3000/'),
      other.open(one.address, 3000),
      one.open(other.address, 3000),
      one.ask('http://absent.internal:3000/'),
    ])
    expect(outcomes.slice(0, 3)).toEqual([`one to ${two.address}`, `two to ${one.address}`, `one to ${other.address}`])
    expect(outcomes.slice(3, 5)).toEqual(['ETIMEDOUT', 'ETIMEDOUT'])
    expect(outcomes[5]).toMatch(/^none: /)
  })

  it.each(['0.0.0.0', '127.0.0.1', 'eth0'])(
    'are reachable when they listen on %s',
    { timeout: 60_000 },
    async (listen) => {
      const app = await start('proj_a', { name: 'app', listen })
      expect(await app.answer()).toBe(`app to ${app.gateway}`)
    },
  )

  it('reach only their intended services of the machine', { timeout: 60_000 }, async () => {
    await using loopback = await service('secret', '127.0.0.1')
    await using everywhere = await service('secret', '0.0.0.0')
    const app = await start('proj_a', { name: 'app', listen: '127.0.0.1' })
    expect(await app.ask(`http://127.0.0.1:${database.port}/`)).toBe('database')
    expect(await app.ask(`http://${app.gateway}:${database.port}/`)).toBe('database')
    expect(await app.open(app.gateway, api.port)).toBe('ECONNREFUSED')
    const routes = JSON.parse(await system('ip', '-j', 'route', 'get', '11.255.0.1').catch(() => '[]'))
    for (const address of routes.flatMap(({ prefsrc }: { prefsrc?: string }) => prefsrc ?? [])) {
      expect(await app.ask(`http://${address}:${api.port}/`)).toBe('api')
      expect(await app.open(address, everywhere.port)).toBe('ECONNREFUSED')
    }
    for (const { port } of [loopback, everywhere]) {
      expect(await app.open('127.0.0.1', port)).toBe('ECONNREFUSED')
      expect(await app.open(app.gateway, port)).toBe('ECONNREFUSED')
    }
  })

  it('reach the internet, and neither private addresses nor the metadata of clouds', { timeout: 60_000 }, async () => {
    await using outside = await otherMachine('169.254.143.143')
    const app = await start('proj_a', { name: 'app' })
    expect(await app.ask(`http://${outside.addresses.public}/`)).toBe('outside')
    expect(await app.open(outside.addresses.private, 80)).toBe('ECONNREFUSED')
    expect(await app.open(outside.addresses.metadata, 80)).toBe('ECONNREFUSED')
  })

  it('begin when their network is complete, and end as usual when it fails', { timeout: 60_000 }, async () => {
    const { engine } = dockerd
    await networks.join('proj_a', async (network) => {
      const run = async (...argv: string[]) => {
        const id = await createContainer(engine, server, network, { argv: [...network.entry, ...argv] })
        await engine.call({ method: 'POST', path: ['containers', id, 'start'] })
        const { State, NetworkSettings } = await inspect(engine, id)
        // The kernel truncates the program's name.
        await expect.poll(() => readFile(`/proc/${State.Pid}/comm`, 'utf8')).toBe('.fairlead-enter\n'.slice(0, 16))
        const [at] = Object.values(NetworkSettings.Networks)
        await networks.started('proj_a', { id, pid: State.Pid, gateway: at?.Gateway ?? '' })
        const ended = await engine.call<object>({ method: 'POST', path: ['containers', id, 'wait'] })
        await engine.call({ method: 'DELETE', path: ['containers', id] })
        return ended
      }
      expect(await run('sh', '-c', 'exit 7')).toMatchObject({ StatusCode: 7 })
      expect(await run('/bin/sh', '-c', 'exit 8')).toMatchObject({ StatusCode: 8 })
      expect(await run('absent')).toMatchObject({ StatusCode: 127 })
      expect(await run('/etc/passwd')).toMatchObject({ StatusCode: 126 })
    })
    await networks.left('proj_a')
  })

  it('that have ended have no rules, even when another process has their pid by then', async () => {
    const other = spawn('unshare', ['--net', 'sleep', '100'], { stdio: 'ignore' })
    try {
      const networkOf = (pid: number | 'self' | undefined) => readlink(`/proc/${pid}/ns/net`)
      const own = await networkOf('self')
      await expect.poll(() => networkOf(other.pid)).not.toBe(own)
      await networks.started('proj_a', { id: 'f'.repeat(64), pid: other.pid ?? 0, gateway: '10.208.0.1' })
      expect(await system('nsenter', `--net=/proc/${other.pid}/ns/net`, 'nft', 'list', 'ruleset')).toBe('')
    } finally {
      other.kill('SIGKILL')
    }
  })

  it('leave no network behind, and keep the same network while one of them remains', { timeout: 90_000 }, async () => {
    const one = await start('proj_a', { name: 'one' })
    const two = await start('proj_a', { name: 'two' })
    expect(await own()).toHaveLength(1)
    expect(one.gateway).toBe(two.gateway)
    await one.end()
    expect(await own()).toHaveLength(1)
    await networks.sweep()
    expect(await own()).toHaveLength(1)
    await two.end()
    started = []
    expect(await own()).toEqual([])
    const [first, second] = await Promise.all(['a', 'b'].map((name) => start('proj_a', { name })))
    expect(first?.gateway).toBe(second?.gateway)
    expect(await own()).toHaveLength(1)
  })

  it('keep their rules over restarts of the server and of the engine', { timeout: 120_000 }, async () => {
    const app = await start('proj_a', { name: 'app', listen: '127.0.0.1' })
    await host.publish(1234)
    await dockerd.kill('SIGTERM')
    await dockerd.start()
    await open()
    const { id, pid, gateway } = app
    await networks.started('proj_a', { id, pid, gateway })
    expect((await inspect(dockerd.engine, app.id)).State.Pid).toBe(pid)
    expect(await app.answer()).toBe(`app to ${gateway}`)
    expect(await app.ask(`http://127.0.0.1:${database.port}/`)).toBe('database')
    expect(await system('nft', 'list', 'set', 'inet', names.table, 'apps')).toContain('1234')
    // A firewall that is reloaded removes foreign rules.
    await system('nft', 'delete', 'table', 'inet', names.table)
    await start('proj_a', { name: 'later' })
    expect(await app.ask(`http://127.0.0.1:${database.port}/`)).toBe('database')
    expect(await app.open(gateway, api.port)).toBe('ECONNREFUSED')
  })

  it('end when everything of the data directory is stopped', { timeout: 60_000 }, async () => {
    await using root = await temporaryDirectory()
    await writeFile(join(root.path, 'server-id'), server)
    expect(await endContainers({ root: root.path }, { graceMs: 0 })).toEqual([])
    await noteEngine({ root: root.path }, dockerd.host.replace('unix://', ''))
    const ended = [await start('proj_a', { name: 'one' }), await start('proj_b', { name: 'two' })]
    expect(await endContainers({ root: root.path }, { graceMs: 0 })).toEqual([''])
    for (const { id } of ended) expect((await inspect(dockerd.engine, id)).State.Pid).toBe(0)
    expect(await own()).toEqual([])
    expect(await endContainers({ root: root.path }, { graceMs: 0 })).toEqual([])
    await noteEngine({ root: root.path }, join(root.path, 'absent.sock'))
    await expect(endContainers({ root: root.path }, { graceMs: 0 })).rejects.toThrow('does not answer')
  })

  it('of others are not touched, whatever they claim', { timeout: 60_000 }, async () => {
    const body = {
      Name: 'of-the-operator',
      Labels: { 'app.fairlead.server': 'another', 'app.fairlead.project': 'proj_a' },
    }
    // The engine fails while another engine on the machine changes the firewall.
    const create = () => dockerd.engine.call<{ Id: string }>({ method: 'POST', path: ['networks', 'create'], body })
    const { Id } = await vi.waitFor(create, { timeout: 20_000, interval: 300 })
    await start('proj_a', { name: 'one' })
    await networks.left('proj_a')
    await networks.sweep()
    await networks.close()
    expect(await dockerd.engine.call({ method: 'GET', path: ['networks', Id] })).toMatchObject({ Containers: {} })
    await dockerd.engine.call({ method: 'DELETE', path: ['networks', Id] })
  })
})
