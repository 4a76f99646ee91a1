import { once } from 'node:events'
import { createServer } from 'node:net'

/** True when no program listens on this port of this machine. Listens there for a moment. */
export async function isPortFree(port: number, host: string): Promise<boolean> {
  const server = createServer()
  const listening = once(server, 'listening')
  server.listen({ port, host, exclusive: true })
  try {
    await listening
  } catch {
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}
