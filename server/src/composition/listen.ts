import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Config } from '../platform/config.ts'

import { finishTimeoutMs } from './composition.ts'
export async function listen(server: Server, config: Config): Promise<{ url: string; close: () => Promise<void> }> {
  server.listen(config.port, config.host)
  try {
    await once(server, 'listening')
  } catch (error) {
    throw listenError(error as NodeJS.ErrnoException, config.host, config.port, '--port or FAIRLEAD_PORT')
  }
  const { port } = server.address() as AddressInfo
  const url = `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`
  const close = async () => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    const cut = setTimeout(() => server.closeAllConnections(), finishTimeoutMs)
    await closed
    clearTimeout(cut)
  }
  return { url, close }
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
