import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/*
 * Each worker of a run has separate port ranges, so that another worker cannot take a port between its check and its
 * use. All ranges lie below the system's ports for outgoing connections, which could otherwise take the port of a
 * server that restarts.
 */

const mostWorkers = 8
/** Concurrent runs on one machine set different numbers of their first worker (`FIRST_WORKER`). */
const numbered =
  (Number(process.env['FIRST_WORKER'] ?? 1) + Number(process.env['VITEST_POOL_ID'] ?? 1) - 2) % mostWorkers
/** The shared server of API tests has the ranges after the workers' ranges. */
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

export const portSettings: Readonly<Record<string, string>> = {
  FAIRLEAD_RELEASE_PORTS: text(releasePorts),
  FAIRLEAD_APP_PORTS: text(appPorts),
  FAIRLEAD_DATABASE_PORTS: text(databasePorts),
}

// Starts at random, because another run may use the same range.
let next = randomInt(otherPorts.from, otherPorts.to + 1)

/** Returns a port without a listener. The port is not returned again for a while. */
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
