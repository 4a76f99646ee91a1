import { once } from 'node:events'
import { createServer } from 'node:net'

/** Listens on an address of this machine for a moment; returns the error when it cannot, `null` otherwise. */
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

/** True when this process may listen on this port and no other program does. */
export async function isPortFree(port: number, host: string): Promise<boolean> {
  return (await listenAndClose(port, host)) === null
}

/**
 * Returns an error that tells the operator why the server cannot listen on an address.
 *
 * @param settings the settings that choose the port
 */
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

/** How long the program on the port of the API has to answer. */
const answerTimeoutMs = 2_000

export async function isFairlead(host: string, port: number): Promise<boolean> {
  const name = host.includes(':') ? `[${host}]` : host
  try {
    const answer = await fetch(`http://${name}:${port}/healthz`, { signal: AbortSignal.timeout(answerTimeoutMs) })
    return ((await answer.json()) as { status?: unknown } | null)?.status === 'alive'
  } catch {
    return false
  }
}
