import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { namesOf } from '../../../server/src/runtimes/network/addresses.ts'
import type { Reach } from '../../../server/src/runtimes/network/reach.ts'
import {
  closeGroups,
  detectCapabilities,
  findNetworkTools,
  type HostCapabilities,
} from '../../../server/src/runtimes/process/confinement/capabilities.ts'
import { ownNamespaces, removeNetworks } from '../../../server/src/runtimes/process/network/namespaces.ts'
import { tryNetworks } from '../../../server/src/runtimes/process/network/networks.ts'
import type { Handle, Observation, Release, Runtime } from '../../../server/src/runtimes/runtime.ts'
import { addressOf } from '../../harness/addresses.ts'
import { processesOf } from '../../harness/deployments.ts'
import { closeNetworks, noNetworks, noReach, otherMachine, system, testNetwork } from '../../harness/networks.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { releasePorts } from '../../harness/ports.ts'
import { processesGone } from '../../harness/project.ts'
import { type Bench, createBench, identities, untilState } from '../../harness/runtimes/support.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const why = await noNetworks()
if (why !== null) skipped('networks of apps', why)

/** Answers with the client's address. */
const echo = createServer((request, response) => response.end(`host to ${request.socket.remoteAddress}`))
const stranger = createServer((_, response) => response.end('stranger'))
const portOf = (server: { address(): unknown }) => (server.address() as AddressInfo).port

/** Listens on the given address, and contacts others on request. */
const asker = `require('node:http').createServer(async (request, response) => {
  const url = new URL(request.url, 'http://app').searchParams.get('ask')
  if (url === null) return response.end('app to ' + request.socket.remoteAddress)
  const answer = await fetch(url, { signal: AbortSignal.timeout(3000) }).then((answer) => answer.text(), (error) => 'none: ' + (error.cause?.code ?? error.name))
  response.end(answer)
}).listen(Number(process.env.PORT), process.argv[1] || undefined)`

const urlOf = (seen: Extract<Observation, { state: 'listening' }>) => {
  const { host, port } = addressOf(seen)
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}/`
}

/** Returns this machine's public IPv4 addresses, without the networks that other tests create and remove. */
const ownAddresses = (): string[] =>
  Object.entries(networkInterfaces())
    .filter(([name]) => !/^(fl|out|br-|docker|veth)/.test(name))
    .flatMap(([, each]) => each ?? [])
    .filter(({ internal, family }) => !internal && family === 'IPv4')
    .map(({ address }) => address)

type Project = Partial<Pick<Release, 'projectId' | 'internalName'>>

interface App {
  readonly release: Release
  readonly handle: Handle
  readonly url: string
  ask(url: string): Promise<string>
}

/** A server with its own data directory. */
interface Fixture extends AsyncDisposable {
  readonly bench: Bench
  readonly host: HostCapabilities
  readonly runtime: Runtime
  /** Starts an app that listens on an address; resolves when it listens. */
  start(address?: string, project?: Project): Promise<App>
  /** Returns the capabilities of a later server of the data directory. */
  later(): Promise<HostCapabilities>
}

async function fixture(reach: Reach = noReach): Promise<Fixture> {
  const bench = await createBench()
  const later = () =>
    detectCapabilities({
      cgroups: 'top',
      path: process.env['PATH'] ?? '',
      directory: bench.directory,
      isRoot: true,
      programs: bench.programs,
      network: { range: testNetwork, reach, ports: releasePorts },
      leavesCore: () => false,
      logger: { warn: () => expect.fail('no networks'), error: expect.fail },
    })
  const host = await later()
  const runtime = bench.newRuntime({ uids: identities[0]?.uids ?? null, host })
  const releases: Release[] = []
  return {
    bench,
    host,
    runtime,
    later,
    async start(address = '', project = {}) {
      const release = await bench.release(runtime, 'node-server', {}, project)
      releases.push(release)
      const handle = await bench.start(runtime, release, ['node', '-e', asker, address])
      const url = urlOf(await untilState(runtime, handle, 'listening'))
      const ask = async (other: string) => (await fetch(`${url}?ask=${encodeURIComponent(other)}`)).text()
      return { release, handle, url, ask }
    },
    async [Symbol.asyncDispose]() {
      for (const release of releases) await runtime.releases.halt(release)
      await bench.dispose()
      await closeNetworks(host.networks, bench.directory)
      await closeGroups(host)
    },
  }
}

/** The sandbox's own process is included: if only that process is killed, the app inside keeps running. */
async function killAllOf(id: string): Promise<void> {
  for (const pid of await processesOf(id)) process.kill(pid, 'SIGKILL')
  await processesGone(id)
}

describe.skipIf(why !== null)('apps with separate networks', () => {
  beforeAll(async () => {
    for (const server of [echo, stranger]) await new Promise<void>((done) => server.listen(0, () => done()))
  })
  afterAll(() => {
    echo.close()
    stranger.close()
  })

  test.each([
    ['', '127.0.0.1'],
    ['127.0.0.1', '127.0.0.1'],
    ['::1', '::1'],
    ['0.0.0.0', '127.0.0.1'],
    ['::', '127.0.0.1'],
  ])('an app that listens on %j is reached, and sees the gateway at %s', async (address, peer) => {
    await using server = await fixture()
    const app = await server.start(address)
    expect((await (await fetch(app.url)).text()).replace('::ffff:', '')).toBe(`app to ${peer}`)
    expect(new URL(app.url).hostname).not.toBe('127.0.0.1')
    await server.runtime.instances.stop(app.handle, { graceMs: 0 })
    // The kernel takes its time, and no caller waits.
    await expect.poll(() => ownNamespaces(namesOf(server.bench.directory)), { timeout: 30_000 }).toEqual([])
  })

  test('an app that listens on another port can be served there', async () => {
    await using server = await fixture()
    const release = await server.bench.release(server.runtime, 'unruly')
    const code = 'require("node:http").createServer((_, r) => r.end("there")).listen(Number(process.env.PORT) + 1)'
    const handle = await server.bench.start(server.runtime, release, ['node', '-e', code])
    const port = Number(handle.data['port'])
    const seen = await untilState(server.runtime, handle, 'wrong_port')
    expect(seen).toMatchObject({ port, ports: [port + 1], servable: port + 1 })
    const { instances } = server.runtime
    const moved = await instances.serveAt(handle, port + 1)
    const stored = JSON.parse(JSON.stringify(moved)) as Handle
    const listening = await untilState(server.runtime, stored, 'listening')
    expect(addressOf(listening).port).toBe(port + 1)
    expect(await (await fetch(urlOf(listening))).text()).toBe('there')
    expect(await instances.observe(await instances.serveAt(stored, port))).toMatchObject({ state: 'wrong_port' })
    await instances.stop(moved, { graceMs: 0 })
  })

  test('reaches only the intended services of this machine, at the same address as before', async () => {
    const ports = [{ from: portOf(echo), to: portOf(echo) }]
    await using server = await fixture({ ...noReach, loopback: ports, localOnly: ports })
    const { ask } = await server.start()
    expect((await ask(`http://127.0.0.1:${portOf(echo)}/`)).replace('::ffff:', '')).toBe('host to 127.0.0.1')
    expect(await ask(`http://127.0.0.1:${portOf(stranger)}/`)).toBe('none: ECONNREFUSED')
    for (const address of ownAddresses()) {
      expect(await ask(`http://${address}:${portOf(stranger)}/`)).toBe('none: ECONNREFUSED')
      expect(await ask(`http://${address}:${portOf(echo)}/`)).toBe('none: ECONNREFUSED')
    }
  })

  test.each(['loopback', 'direct'] as const)(
    'reaches only the ports of apps that the gateway has opened: %s',
    async (at) => {
      const [from = 0, to = 0] = [portOf(echo), portOf(stranger)].sort((one, other) => one - other)
      const reach: Reach = { ...noReach, apps: { ports: { from, to }, at } }
      await using server = await fixture(reach)
      const { ask } = await server.start()
      const address = at === 'loopback' ? '127.0.0.1' : ownAddresses()[0]
      if (address === undefined) return
      expect(await ask(`http://${address}:${portOf(echo)}/`)).toBe('none: ECONNREFUSED')
      await server.host.networks?.publish(portOf(echo))
      expect(await ask(`http://${address}:${portOf(echo)}/`)).toContain('host to')
      expect(await ask(`http://${address}:${portOf(stranger)}/`)).toBe('none: ECONNREFUSED')
      // The next server keeps the open ports.
      await server.later()
      expect(await ask(`http://${address}:${portOf(echo)}/`)).toContain('host to')
    },
  )

  test('the public ports of this machine answer at its own addresses', async () => {
    const ports = [{ from: portOf(echo), to: portOf(echo) }]
    await using server = await fixture({ ...noReach, direct: ports })
    const { ask } = await server.start()
    const [first] = ownAddresses()
    if (first === undefined) return
    expect(await ask(`http://${first}:${portOf(echo)}/`)).toContain('host to')
    expect(await ask(`http://127.0.0.1:${portOf(echo)}/`)).toContain('none')
  })

  test('one of two concurrent starts gets the last free network, and keeps it', async () => {
    await using directory = await temporaryDirectory()
    const tools = (await findNetworkTools()) ?? expect.fail('no tools')
    // Eight networks, at addresses that no other test has.
    const range = { first: 0xc613_ff00, bits: 27 }
    const networks = await tryNetworks({ tools, dataDirectory: directory.path, range, reach: noReach })
    if (typeof networks === 'string') return expect.fail(networks)
    const open = async (id: string) => {
      const network = await networks.open({ id, kind: 'app' })
      await network.ready
      return network.address ?? expect.fail('no address')
    }
    const hosts = () =>
      Object.values(networkInterfaces())
        .flat()
        .map((each) => each?.address)
    try {
      for (let count = 0; count < 7; count += 1) await open(`dep_${count}`)
      const asked = await Promise.allSettled(['dep_a', 'dep_b', 'dep_c', 'dep_d'].map(open))
      const had = asked.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
      expect(had).toHaveLength(1)
      expect(hosts()).toContain(had[0]?.replace(/\d+$/, (last) => String(Number(last) - 1)))
      expect((await ownNamespaces(namesOf(directory.path))).length).toBe(8)
    } finally {
      await networks.close()
    }
  })

  test('concurrent servers do not interfere: neither their apps, nor their clean-up', async () => {
    await using one = await fixture({ ...noReach, outbound: { mode: 'any', allow: [] } })
    await using two = await fixture()
    const [a, b, c] = [await one.start(), await one.start('', { projectId: 'proj_2' }), await two.start()]
    for (const other of [b, c]) expect(await a.ask(other.url)).toContain('none')
    expect(new Set([a, b, c].map(({ url }) => url)).size).toBe(3)
    await two.runtime.instances.stop(c.handle, { graceMs: 0 })
    await two.host.networks?.close()
    expect(await (await fetch(a.url)).text()).toContain('app to')
  })

  test('a later server adopts them, and removes ended ones', async () => {
    await using server = await fixture()
    const [kept, ended] = [await server.start(), await server.start()]
    await killAllOf(ended.release.id)
    await untilState(server.runtime, ended.handle, 'exited')
    const host = await server.later()
    const later = server.bench.newRuntime({ uids: identities[0]?.uids ?? null, host })
    const seen = await untilState(later, kept.handle, 'listening')
    expect(urlOf(seen)).toBe(kept.url)
    expect(await (await fetch(kept.url)).text()).toContain('app to')
    const left = await ownNamespaces(namesOf(server.bench.directory))
    expect(left.map(({ id }) => id)).toEqual([kept.release.id])
  })

  describe('the apps of a project', () => {
    const named = (projectId: string, internalName: string | null) => ({ projectId, internalName })
    /** Every app of a server has the same port, in a separate network. */
    const at = (name: string, { handle }: App) => `http://${name}.internal:${handle.data['port']}/`

    test('reach each other by name, and other projects’ apps at no address', async () => {
      await using server = await fixture({ ...noReach, outbound: { mode: 'any', allow: [] } })
      const one = await server.start('', named('proj_a', 'one'))
      const two = await server.start('', named('proj_a', 'two'))
      const other = await server.start('', named('proj_b', 'one'))
      const worker = await server.start('', named('proj_a', null))
      const seen = (app: App) => `app to ${new URL(app.url).hostname}`
      for (const [from, url, answer] of [
        [two, at('one', one), seen(two)],
        [one, at('two', two), seen(one)],
        [worker, at('one', one), seen(worker)],
        // The name belongs to the same project's app.
        [other, at('one', other), seen(other)],
        [other, at('two', two), 'none: ENOTFOUND'],
        [other, one.url, 'none: TimeoutError'],
        [one, other.url, 'none: TimeoutError'],
        [one, worker.url, seen(one)],
      ] as const) {
        expect((await from.ask(url)).replace('::ffff:', ''), `${from.url} asks ${url}`).toBe(answer)
      }
      // The gateway sees no difference.
      expect((await (await fetch(two.url)).text()).replace('::ffff:', '')).toBe('app to 127.0.0.1')
    })

    test('reach no listener on loopback, and no service of the machine at each other’s addresses', async () => {
      const ports = [{ from: portOf(echo), to: portOf(echo) }]
      await using server = await fixture({ ...noReach, loopback: ports, localOnly: ports })
      const private_ = await server.start('127.0.0.1', named('proj_a', 'private'))
      const asking = await server.start('', named('proj_a', 'asking'))
      expect(await asking.ask(at('private', private_))).toBe('none: ECONNREFUSED')
      expect(await asking.ask(`http://private.internal:${portOf(echo)}/`)).toBe('none: ECONNREFUSED')
      expect(await asking.ask(`http://127.0.0.1:${portOf(echo)}/`)).toContain('host to')
    })

    test('have names for as long as they run', async () => {
      await using server = await fixture()
      const one = await server.start('', named('proj_a', 'one'))
      const two = await server.start('', named('proj_a', 'two'))
      const later = await server.start('', named('proj_a', 'one'))
      expect(await two.ask(at('one', one))).toContain('app to')
      await server.runtime.instances.stop(one.handle, { graceMs: 0 })
      await expect.poll(() => two.ask(at('one', one))).toContain('app to')
      await server.runtime.instances.stop(later.handle, { graceMs: 0 })
      await expect.poll(() => two.ask(at('one', one))).toBe('none: ENOTFOUND')
      expect(await two.ask(one.url)).toMatch(/^none: /)
    })

    test('reach each other after a restart of the server, and after a reload of a firewall', async () => {
      await using server = await fixture()
      const [one, two] = [
        await server.start('', named('proj_a', 'one')),
        await server.start('', named('proj_a', 'two')),
      ]
      const gone = await server.start('', named('proj_a', 'gone'))
      await killAllOf(gone.release.id)
      const host = await server.later()
      expect(await two.ask(at('one', one))).toContain('app to')
      await host.networks?.sweep()
      await expect.poll(() => two.ask(at('gone', gone))).toBe('none: ENOTFOUND')
      await system('nft', 'delete', 'table', 'inet', namesOf(server.bench.directory).table)
      const three = await server.start('', named('proj_a', 'three'))
      for (const app of [two, three]) expect(await app.ask(at('one', one))).toContain('app to')
    })

    test('cannot change their names, nor see other projects’ names', async () => {
      await using server = await fixture()
      await server.start('', named('proj_b', 'secret'))
      const app = await server.start('', named('proj_a', 'one'))
      const [stdin, stdout, stderr] = [new PassThrough().end(), new PassThrough(), new PassThrough()]
      const said = text(stdout)
      const script = `const fs = require('node:fs')
console.log(fs.readFileSync('/etc/hosts', 'utf8'))
for (const path of ['/etc/hosts', '/.project/hosts', '/.project/other']) try { fs.appendFileSync(path, 'x'); console.log('written') } catch { console.log('refused') }`
      const request = { argv: ['node', '-e', script] as [string, ...string[]], tty: null, stdin, stdout, stderr }
      const signal = AbortSignal.timeout(20_000)
      await server.runtime.instances.attach(app.release, app.handle, { ...request, signal })
      stdout.end()
      const printed = await said
      expect(printed).toContain(' one.internal\n')
      expect(printed).not.toContain('secret')
      expect(printed.match(/written|refused/g)).toEqual(['refused', 'refused', 'refused'])
    })
  })

  test('a command beside an app is in its network', async () => {
    await using server = await fixture()
    const app = await server.start('127.0.0.1')
    const [stdin, stdout, stderr] = [new PassThrough().end(), new PassThrough(), new PassThrough()]
    const said = text(stdout)
    const script = "fetch('http://127.0.0.1:' + process.env.PORT).then((a) => a.text()).then(console.log)"
    const argv = ['node', '-e', script]
    const signal = AbortSignal.timeout(20_000)
    const request = { argv: argv as [string, ...string[]], tty: null, stdin, stdout, stderr, signal }
    expect(await server.runtime.instances.attach(app.release, app.handle, request)).toMatchObject({ code: 0 })
    stdout.end()
    expect(await said).toContain('app to')
  })

  test('a build reaches the operator’s mirrors on this machine; an app does not', async () => {
    const mirrors = [{ host: '127.0.0.1', port: portOf(echo) }]
    await using server = await fixture({ ...noReach, mirrors })
    const release = await server.bench.release(server.runtime, 'node-server')
    const fetches = (port: number) =>
      ['node', '-e', `fetch('http://127.0.0.1:${port}').then((a) => a.text()).then(console.log)`] as const
    expect(await server.bench.build(server.runtime, release, [fetches(portOf(echo))])).toEqual({ ok: true })
    expect((await server.bench.lines(release, 'build')).at(-1)).toContain('host to')
    const other = await server.bench.build(server.runtime, release, [fetches(portOf(stranger))])
    expect(other).toMatchObject({ ok: false, code: 1 })
    const { ask } = await server.start()
    expect(await ask(`http://127.0.0.1:${portOf(echo)}/`)).toContain('none')
  })

  test('private, link-local and metadata addresses follow the settings; the internet is reached', async () => {
    await using outside = await otherMachine('169.254.169.254')

    const outcomes = async (outbound: Reach['outbound']) => {
      await using server = await fixture({ ...noReach, outbound })
      const { ask } = await server.start()
      const answers = Object.entries(outside.addresses).map(
        async ([kind, address]) => [kind, (await ask(`http://${address}/`)) === 'outside'] as const,
      )
      return Object.fromEntries(await Promise.all(answers))
    }
    expect(await outcomes({ mode: 'public', allow: [] })).toEqual({ public: true, private: false, metadata: false })
    expect(await outcomes({ mode: 'public', allow: [`${outside.addresses.private}/32`] })).toEqual({
      public: true,
      private: true,
      metadata: false,
    })
    expect(await outcomes({ mode: 'any', allow: [] })).toEqual({ public: true, private: true, metadata: false })
  })

  test('firewalls that drop unknown packets, like Docker’s, let the networks pass, and stay unchanged', async () => {
    await using outside = await otherMachine('169.254.169.254')
    await using cleanup = new AsyncDisposableStack()
    const table = ['inet', `firewall-${process.pid}`]
    // Servers of concurrent tests let their networks pass this table, too.
    const listed = async (own: string) => {
      const lines = (await system('nft', 'list', 'table', ...table)).split('\n')
      return lines.filter((line) => !line.includes(' accept comment ') || line.includes(`"${own}"`))
    }
    let before: string[]
    let name: string
    {
      await using server = await fixture()
      const { ask } = await server.start()
      const names = namesOf(server.bench.directory)
      const own = `"${names.interfaces}*"`
      name = names.table
      // All foreign packets pass, because other tests run beside this one.
      const chain = (hook: string, others: string) => [
        `add chain ${table.join(' ')} ${hook} { type filter hook ${hook} priority 0; policy drop; }`,
        `add rule ${table.join(' ')} ${hook} ct state established,related accept`,
        `add rule ${table.join(' ')} ${hook} ${others} accept`,
      ]
      const forward = chain('forward', `iifname != ${own} oifname != ${own}`)
      const firewall = [`add table ${table.join(' ')}`, ...forward, ...chain('input', `iifname != ${own}`)].join('; ')
      cleanup.defer(async () => void (await system('nft', 'delete', 'table', ...table)))
      await system('nft', firewall)
      before = await listed(name)
      expect(await ask(`http://${outside.addresses.public}/`)).toContain('none')
      for (const _ of [1, 2]) {
        await server.later()
        expect(await listed(name)).toHaveLength(before.length + 3)
      }
      expect(await ask(`http://${outside.addresses.public}/`)).toBe('outside')
    }
    expect(await listed(name)).toEqual(before)
  })

  test('a foreign firewall that appears and disappears does not disconnect the networks', async () => {
    await using server = await fixture()
    const table = `inet comes-and-goes-${process.pid}`
    const made = `add table ${table}; add chain ${table} forward { type filter hook forward priority 0; policy drop; }; add rule ${table} forward accept`
    let isOver = false
    const changes = (async () => {
      while (!isOver) {
        await system('nft', made)
        await system('nft', `delete table ${table}`)
      }
    })()
    try {
      for (let time = 0; time < 10; time += 1) await server.later()
    } finally {
      isOver = true
      await changes
    }
    expect((await server.start()).url).toContain('http://')
  })

  test('a server that cannot clean up leaves only what the command stop finds', async () => {
    await using server = await fixture()
    const { release, handle } = await server.start()
    const names = namesOf(server.bench.directory)
    const tools = await findNetworkTools()
    if (tools === null) return
    await removeNetworks(tools, server.bench.directory)
    expect(await ownNamespaces(names)).toHaveLength(1)
    await killAllOf(release.id)
    await untilState(server.runtime, handle, 'exited')
    await removeNetworks(tools, server.bench.directory)
    expect(await ownNamespaces(names)).toEqual([])
    await expect(system('nft', 'list', 'table', 'inet', names.table)).rejects.toThrow()
  })
})
