import { once } from 'node:events'
import { createServer } from 'node:net'

/** Listens on an address of this machine for a moment; returns the error when that is not possible, `null` otherwise. */
export async function listenAndClose(port: number, host: string): Promise<NodeJS.ErrnoException | null> {
  const server = createServer()
  const listening = once(server, 'listening')
  server.listen({ port, host, exclusive: true })
  try {
    await listening
  } catch (error) {
    return error as NodeJS.ErrnoException
  }
  server.close()
  await once(server, 'close')
  return null
}

/** True when this process could listen on this port: it may, and no other program does. */
export async function isPortFree(port: number, host: string): Promise<boolean> {
  return (await listenAndClose(port, host)) === null
}
