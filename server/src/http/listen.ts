import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Config } from '../platform/config.ts'
import type { Takeover } from '../platform/handover.ts'
import { isFairlead, listenError } from '../platform/ports.ts'
import { descriptorLimit } from '../platform/processes.ts'

/** Returns the most client connections that leave enough descriptors for the database, files and commands. */
export const mostConnections = (): number => Math.floor(descriptorLimit() / 2)

interface Listening {
  readonly url: string
  /** Called once the API is ready. A server that takes over accepts connections only from then on. */
  begin(): Promise<void>
}

/** Listens on the configured address, or prepares to take over the socket of the server that listens there. */
export async function listen(
  server: Server,
  config: Config,
  takeover?: Pick<Takeover, 'port' | 'listener'>,
): Promise<Listening> {
  // Node emits an error for a connection that it cannot accept, for example without free descriptors. The next may
  // succeed.
  const ignore = () => undefined
  server.on('listening', () => server.on('error', ignore))
  if (takeover !== undefined) {
    const begin = async () => {
      const listening = once(server, 'listening')
      server.listen(await takeover.listener())
      await listening
    }
    return { url: urlOf(config.host, takeover.port), begin }
  }
  server.listen(config.port, config.host)
  try {
    await once(server, 'listening')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE' && (await isFairlead(config.host, config.port))) {
      throw new Error(
        `Another server of Fairlead listens on ${config.host}:${config.port}. Stop it (fairlead stop, with its --data-dir), or choose ` +
          'another port with --port or FAIRLEAD_PORT.',
      )
    }
    throw listenError(error as NodeJS.ErrnoException, config.host, config.port, '--port or FAIRLEAD_PORT')
  }
  const { port } = server.address() as AddressInfo
  return { url: urlOf(config.host, port), begin: async () => undefined }
}

const urlOf = (host: string, port: number): string => `http://${host.includes(':') ? `[${host}]` : host}:${port}`
