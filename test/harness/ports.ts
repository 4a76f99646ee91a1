import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/*
 * Each worker of a run has port ranges of its own, so that another worker cannot take a port between the check that it is
 * free and its use. All ranges lie below the one from which the system assigns ports for outgoing connections, which could
 * otherwise take the port of a server that restarts.
 */

const mostWorkers = 8
/** Runs at the same time on one machine set different numbers of their first worker (`FIRST_WORKER`). */
const numbered =
  (Number(process.env['FIRST_WORKER'] ?? 1) + Number(process.env['VITEST_POOL_ID'] ?? 1) - 2) % mostWorkers
/** The server that API tests share has the ranges after the workers' ones. */
const worker = process.env['SHARED_SERVER'] === 'true' ? mostWorkers : numbered

const share = (first: number, count: number) => {
  const from = first + worker * count
  return { from, to: from + count - 1 }
}

export const releasePorts = share(10_000, 1000)
const appPorts = share(20_000, 1000)
const databasePorts = share(30_000, 100)
const otherPorts = share(31_000, 190)

const text = ({ from, to }: { from: number; to: number }) => `${from}-${to}`

/** The settings of a server with these ranges. */
export const portSettings: Readonly<Record<string, string>> = {
  FAIRLEAD_RELEASE_PORTS: text(releasePorts),
  FAIRLEAD_APP_PORTS: text(appPorts),
  FAIRLEAD_DATABASE_PORTS: text(databasePorts),
}

// Starts at random, because another run may use the same range.
let next = randomInt(otherPorts.from, otherPorts.to + 1)

/** Returns a port that no program listens on, and that is not returned again for a while. */
export async function freePort(): Promise<number> {
  for (let tried = otherPorts.from; tried <= otherPorts.to; tried++) {
    const port = next
    next = port === otherPorts.to ? otherPorts.from : port + 1
    if (await isFree(port)) return port
  }
  throw new Error(`no port from ${text(otherPorts)} is free`)
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch {
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}
