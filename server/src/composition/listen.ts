import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Config } from '../platform/config.ts'
import type { Takeover } from '../platform/handover/take-over.ts'
import { descriptorLimit } from '../platform/processes.ts'
import { finishTimeoutMs } from './composition.ts'

interface Listening {
  readonly url: string
  readonly close: () => Promise<void>
  /** Called once the API is ready; a server that takes over accepts only from then on. */
  begin(): Promise<void>
}

/** Listens on the configured address, or prepares to take over the socket of a server that listens there. */
export async function listen(server: Server, config: Config, takeover?: Takeover): Promise<Listening> {
  // Clients that open as many connections as they can leave descriptors for the database, files and commands.
  server.maxConnections = Math.floor(descriptorLimit() / 2)
  if (takeover !== undefined) {
    const begin = async () => {
      const listening = once(server, 'listening')
      server.listen(await takeover.listener())
      await listening
      await takeover.ready()
    }
    return { url: urlOf(config.host, takeover.port), close: () => close(server), begin }
  }
  server.listen(config.port, config.host)
  try {
    await once(server, 'listening')
  } catch (error) {
    throw listenError(error as NodeJS.ErrnoException, config.host, config.port, '--port or FAIRLEAD_PORT')
  }
  const { port } = server.address() as AddressInfo
  return { url: urlOf(config.host, port), close: () => close(server), begin: async () => undefined }
}

const urlOf = (host: string, port: number): string => `http://${host.includes(':') ? `[${host}]` : host}:${port}`

async function close(server: Server): Promise<void> {
  if (!server.listening) return
  const closed = once(server, 'close')
  server.close()
  const cut = setTimeout(() => server.closeAllConnections(), finishTimeoutMs)
  await closed
  clearTimeout(cut)
}

export function listenError(error: NodeJS.ErrnoException, host: string, port: number, settings: string): Error {
  const where = `${host}:${port}`
  if (error.code === 'EADDRINUSE') {
    return new Error(`The address ${where} is taken by another program. Choose another port with ${settings}.`)
  }
  if (error.code === 'EACCES') {
    return new Error(`This user may not listen on ${where}. Choose a port above 1023 with ${settings}.`)
  }
  return new Error(`The server cannot listen on ${where}: ${error.message}. Check the host and ${settings}.`)
}
