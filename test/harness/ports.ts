import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/*
 * Ports of which each worker of a run has its own, so that what one has found free is not taken by another before it is
 * bound. All lie below those that the system gives out by itself, which would take one from a server that is restarted.
 */

const mostWorkers = 8
/** Runs beside each other on one machine keep apart by counting their workers from different numbers (`FIRST_WORKER`). */
const worker = (Number(process.env['FIRST_WORKER'] ?? 1) + Number(process.env['VITEST_POOL_ID'] ?? 1) - 2) % mostWorkers

const share = (first: number, count: number) => {
  const from = first + worker * count
  return { from, to: from + count - 1 }
}

export const releasePorts = share(10_000, 1000)
const appPorts = share(20_000, 1000)
const databasePorts = share(30_000, 100)
const otherPorts = share(31_000, 200)

const text = ({ from, to }: { from: number; to: number }) => `${from}-${to}`

/** The settings of a server. */
export const portSettings: Readonly<Record<string, string>> = {
  FAIRLEAD_RELEASE_PORTS: text(releasePorts),
  FAIRLEAD_APP_PORTS: text(appPorts),
  FAIRLEAD_DATABASE_PORTS: text(databasePorts),
}

// At random: another run may have begun as well.
let next = randomInt(otherPorts.from, otherPorts.to + 1)

/** A port that nobody listens on, and that is given to nobody else for a while. */
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
