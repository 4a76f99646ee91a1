import { createServer, type Server } from 'node:http'
import { type AddressInfo, createServer as createSocketServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { expect } from 'vitest'
import { namesOf, subnetAt } from '../../../server/src/runtimes/network/addresses.ts'
import { ownNamespaces } from '../../../server/src/runtimes/process/network/namespaces.ts'
import { attacks } from '../../harness/attacks/attack.ts'
import { hostileApp } from '../../harness/attacks/hostile-app.ts'
import { createdDatabase } from '../../harness/databases.ts'
import { system, testNetwork, trackedConnections } from '../../harness/networks.ts'
import { releasePorts } from '../../harness/ports.ts'
import { processesIn } from '../../harness/process.ts'

/** Code that fetches an address and returns the response, or the error code. */
const fetches = (url: string) =>
  `return fetch(${JSON.stringify(url)}, { signal: AbortSignal.timeout(3000) }).then((answer) => answer.text(), (error) => ({ error: error.cause?.code ?? error.name }))`

/** Code that answers on as many ports of a range as it can, and returns their number. */
const takes = ({ from, to }: { from: number; to: number }) => `
  const listen = (port) => new Promise((done) => {
    const server = require('node:http').createServer((request, response) => response.end('attacker'))
    server.once('error', () => done(false)).listen(port, '127.0.0.1', () => done(true))
  })
  globalThis.taken ??= new Set()
  for (let port = ${from}; port <= ${to}; port++) if (!globalThis.taken.has(port) && await listen(port)) globalThis.taken.add(port)
  return globalThis.taken.size`

const portOf = (server: Pick<Server, 'address'>) => (server.address() as AddressInfo).port

/** A service of the machine that apps must not reach. */
async function hostService(address: string, port = 0): Promise<{ port: number } & AsyncDisposable> {
  const server = createServer((_, response) => response.end('secret'))
  await new Promise<void>((done, fail) => server.once('error', fail).listen(port, address, done))
  return {
    port: portOf(server),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}

attacks({}, (attack) => {
  attack(
    {
      id: 'host-services',
      topic: 'Network',
      needsNetworks: true,
      held: 'An app reaches no service of the machine, except PostgreSQL for apps and the addresses of the API and of apps',
    },
    async ({ attacker }) => {
      await using service = await hostService('0.0.0.0')
      const app = await hostileApp(attacker, 'attacks')
      const own = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
      const addresses = own.filter(({ family }) => family === 'IPv4').map(({ address }) => address)
      for (const address of addresses) {
        expect(await app.run(fetches(`http://${address}:${service.port}/`)), address).not.toBe('secret')
      }
    },
  )

  attack(
    {
      id: 'metadata',
      topic: 'Network',
      needsNetworks: true,
      held: 'An app does not reach 169.254.169.254, where clouds give out the credentials of the machine',
    },
    async ({ attacker }) => {
      await using cleanup = new AsyncDisposableStack()
      await system('ip', 'address', 'add', '169.254.169.254/32', 'dev', 'lo')
      cleanup.defer(async () => void (await system('ip', 'address', 'del', '169.254.169.254/32', 'dev', 'lo')))
      cleanup.use(await hostService('169.254.169.254', 80))
      const app = await hostileApp(attacker, 'attacks')
      expect(await app.run(fetches('http://169.254.169.254/'))).not.toBe('secret')
    },
  )

  attack(
    {
      id: 'abstract-socket',
      topic: 'Network',
      needsNetworks: true,
      held: 'An app reaches no abstract Unix socket of the machine',
    },
    async ({ attacker }) => {
      const name = `\0fairlead-test-${process.pid}`
      await using cleanup = new AsyncDisposableStack()
      const server = createSocketServer((socket) => socket.on('error', () => undefined).end('secret'))
      await new Promise<void>((done) => server.listen(name, done))
      cleanup.defer(() => void server.close())
      const app = await hostileApp(attacker, 'attacks')
      const reads = `return new Promise((done) => {
        const socket = require('node:net').connect(${JSON.stringify(name)})
        socket.on('data', (data) => done(String(data))).on('error', (error) => done(error.code))
      })`
      expect(await app.run(reads)).toBe('ECONNREFUSED')
    },
  )

  attack(
    { id: 'other-app', topic: 'Network', needsNetworks: true, held: 'An app reaches no other app past the gateway' },
    async ({ attacker, victim, data }) => {
      const { id } = await hostileApp(victim, 'other-app')
      const app = await hostileApp(attacker, 'attacks')
      // The victim listens at its own address, or on a port of the machine.
      const own = (await ownNamespaces(namesOf(data))).filter((each) => each.id === id)
      const addresses = own.map(({ index }) => `${subnetAt(testNetwork, index).inside}:${releasePorts.from}`)
      for (const address of addresses) expect(await app.run(fetches(`http://${address}/`))).not.toBe('app')
      const scans = `const found = []
        for (let port = ${releasePorts.from}; port <= ${releasePorts.to}; port++) {
          if (String(port) === process.env.PORT) continue
          const answer = await fetch('http://127.0.0.1:' + port).then((answer) => answer.text(), () => '')
          if (answer === 'app') found.push(port)
        }
        return found`
      expect(await app.run(scans)).toEqual([])
    },
  )

  attack(
    {
      id: 'connections-of-app',
      topic: 'Network',
      needsNetworks: true,
      held: 'An app takes up no more than 200 connections of PostgreSQL, the API and the gateway, and 100 of PostgreSQL',
    },
    async ({ attacker, victim, server }) => {
      const { connection_string } = await createdDatabase(victim.client, victim.project)
      const postgres = new URL(connection_string).port
      const opens = (count: number, port = postgres) => `
        globalThis.sockets ??= []
        const open = () => new Promise((done) => {
          const socket = require('node:net').connect(${port}, '127.0.0.1')
          sockets.push(socket)
          socket.on('connect', () => done(true)).on('error', () => done(false))
        })
        return (await Promise.all(Array.from({ length: ${count} }, open))).filter(Boolean).length`
      const app = await hostileApp(attacker, 'attacks')
      expect(await app.run(opens(500))).toBe(100)
      // Requests to the API count, too.
      expect(await app.run(opens(500, new URL(server.url).port))).toBe(100)
      const other = await hostileApp(victim, 'other-app')
      expect(await other.run(opens(10))).toBe(10)
    },
  )

  attack(
    {
      id: 'tracked-connections',
      topic: 'Network',
      needsNetworks: true,
      held: 'An app that begins connections to the outside without end fills no table of the machine',
    },
    async ({ attacker }) => {
      const app = await hostileApp(attacker, 'attacks')
      // These documentation addresses have no server.
      const sends = `
        const socket = require('node:dgram').createSocket('udp4')
        let sent = 0
        for (let host = 1; host <= 100; host++) for (let port = 1; port <= 200; port++) {
          await new Promise((done) => socket.send('x', port, '198.51.100.' + host, (error) => { sent += error ? 0 : 1; done() }))
        }
        socket.close()
        return sent`
      const before = await trackedConnections()
      const started = Date.now()
      await app.run(sends)
      const seconds = (Date.now() - started) / 1000
      // Other tests' connections also count: they may come from the same attack.
      expect((await trackedConnections()) - before).toBeLessThan(2_000 + 100 * seconds + 4_000)
    },
  )

  attack(
    {
      id: 'other-projects',
      topic: 'Network',
      needsNetworks: true,
      held: 'An app reaches no app of another project, neither by a name nor at its address',
    },
    async ({ attacker, victim }) => {
      // A name of the same project does not replace it.
      const app = await hostileApp(attacker, 'attacks')
      await hostileApp(attacker, 'private-api')
      const tells = `const all = Object.values(require('node:os').networkInterfaces()).flat()
const { address } = all.find(({ internal, family }) => !internal && family === 'IPv4')
require('node:http').createServer((_, response) => response.end('private ' + address + ' ' + process.env.PORT)).listen(process.env.PORT)`
      const { url } = await hostileApp(victim, 'private', { 'server.js': tells })
      const [, address = '', port] = (await (await fetch(url)).text()).split(' ')
      for (const host of ['private.internal', 'private', address]) {
        expect(await app.run(fetches(`http://${host}:${port}/`)), host).not.toContain('private')
      }
    },
  )

  attack(
    {
      id: 'release-ports',
      topic: 'Network',
      needsNetworks: true,
      held: 'An app that takes all ports keeps no other app from starting',
    },
    async ({ attacker, victim }) => {
      const app = await hostileApp(attacker, 'attacks')
      expect(await app.run(takes(releasePorts))).toBeGreaterThan(500)
      await hostileApp(victim, 'after-ports')
    },
  )

  attack(
    {
      id: 'answers-for-others',
      topic: 'Network',
      needsNetworks: true,
      held: 'An app never answers at the address of another one whose process has ended, nor after `kill -9` of the server',
    },
    async (given) => {
      const { attacker, victim, data } = given
      // A supervisor that outlives its worker.
      const worker =
        "require('node:http').createServer((request, response) => request.url === '/end' ? process.exit() : response.end('victim')).listen(process.env.PORT)"
      const supervisor = "require('node:child_process').fork('worker.js'); setInterval(() => undefined, 1000)"
      const app = await hostileApp(attacker, 'attacks')
      const { url } = await hostileApp(victim, 'supervised', { 'server.js': supervisor, 'worker.js': worker })
      const answer = async (path = '/') => (await fetch(new URL(path, url)).catch(() => null))?.text() ?? 'none'
      expect(await answer()).toBe('victim')
      // The server must not be there to restart the victim.
      await given.server.kill()
      await answer('/end')
      await app.run(takes(releasePorts))
      expect(await answer()).not.toBe('attacker')
      // Without the gateway, the app's address is free. The attacker continues by itself.
      const { port } = new URL(url)
      const later = `setInterval(async () => { ${takes({ from: Number(port), to: Number(port) })} }, 20)`
      await app.run(later)
      for (const pid of await processesIn(`${data}/gateway`)) process.kill(pid, 'SIGKILL')
      for (let tried = 0; tried < 20; tried++) {
        await new Promise((done) => setTimeout(done, 50))
        expect(await answer()).not.toBe('attacker')
      }
      await given.restart()
    },
  )
})
