import { once } from 'node:events'
import { connect as connectSocket, type Socket } from 'node:net'
import { expect, vi } from 'vitest'
import { attacks } from '../../harness/attacks/attack.ts'
import { hostileApp } from '../../harness/attacks/hostile-app.ts'
import { query } from '../../harness/databases.ts'
import { opponents } from './opponents.ts'

// A busy machine takes minutes to deploy ten apps.
vi.setConfig({ testTimeout: 400_000 })

interface Flood extends AsyncDisposable {
  /** The number of connections opened so far. */
  opened(): number
}

/** Opens connections that send nothing, and replaces each that ends. */
async function flood(address: URL, count: number): Promise<Flood> {
  const sockets = new Set<Socket>()
  let attacking = true
  let opened = 0
  const open = () => {
    const socket = connectSocket(Number(address.port), address.hostname)
    sockets.add(socket)
    opened++
    socket.on('error', () => undefined)
    socket.on('data', () => undefined)
    socket.once('close', () => {
      sockets.delete(socket)
      if (attacking) open()
    })
    return once(socket, 'connect').catch(() => undefined)
  }
  await Promise.all(Array.from({ length: count }, open))
  return {
    opened: () => opened,
    async [Symbol.asyncDispose]() {
      attacking = false
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** Logs in a number of times one after another, and prints and returns the number of successes. */
async function logins(connectionString: string, count: number, circumstances: () => string): Promise<number> {
  let succeeded = 0
  for (let login = 0; login < count; login++) {
    succeeded += await query(connectionString, 'select 1').then(
      () => 1,
      () => 0,
    )
  }
  console.log(`${succeeded} of ${count} logins of another succeeded, ${circumstances()}`)
  return succeeded
}

attacks({}, (attack) => {
  attack(
    {
      id: 'database-silent-connections',
      topic: 'Databases',
      held: 'Connections that send nothing keep nobody from logging in to a database',
    },
    async (server) => {
      await using databases = await opponents(server)
      await using silent = await flood(new URL(databases.own.connection_string), 900)
      const circumstances = () => `with 900 silent connections open and ${silent.opened()} opened in all`
      expect(await logins(databases.foreign.connection_string, 20, circumstances)).toBe(20)
    },
  )

  attack(
    {
      id: 'database-named-connections',
      topic: 'Databases',
      held: 'Ten apps whose connections name a user and do not log in keep nobody from logging in to a database',
    },
    async (server) => {
      await using databases = await opponents(server)
      const { port, username, pathname } = new URL(databases.own.connection_string)
      // The startup message of PostgreSQL's protocol, 3.0.
      const floods = `
        const text = ${JSON.stringify(`user\0${username}\0database\0${pathname.slice(1)}\0\0`)}
        const message = Buffer.alloc(8 + text.length)
        message.writeInt32BE(message.length)
        message.writeInt32BE(196608, 4)
        message.write(text, 8)
        globalThis.opened = 0
        const open = () => {
          const socket = require('node:net').connect(${port}, '127.0.0.1', () => { opened++; socket.write(message) })
          socket.on('data', () => undefined).on('error', () => undefined).on('close', () => setTimeout(open, 20))
        }
        for (let count = 0; count < 200; count++) open()`
      const accomplice = await server.tenant('accomplice')
      const owners = [server.attacker, accomplice].flatMap((tenant) => Array.from({ length: 5 }, () => tenant))
      const apps = await Promise.all(owners.map((owner, at) => hostileApp(owner, `attacks-${at}`)))
      for (const app of apps) await app.run(floods)
      const opened = async () => {
        const each = await Promise.all(apps.map((app) => app.run('return opened')))
        return each.reduce((sum: number, count) => sum + Number(count), 0)
      }
      await expect.poll(opened).toBeGreaterThan(500)
      const circumstances = () => 'while ten apps open connections that name a user'
      expect(await logins(databases.foreign.connection_string, 20, circumstances)).toBe(20)
      console.log(`${await opened()} connections were opened`)
    },
  )
})
