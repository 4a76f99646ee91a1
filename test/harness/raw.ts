import { connect, type Socket } from 'node:net'

/** Opens a TCP connection on which a test can write any bytes. */
export function open(url: string): Promise<Socket> {
  const { port, hostname } = new URL(url)
  return new Promise((done, fail) => {
    const socket = connect(Number(port), hostname, () => {
      socket.off('error', fail)
      // A connection reset is a valid result for tests.
      socket.on('error', () => undefined)
      done(socket)
    })
    socket.once('error', fail)
  })
}

/**
 * Writes a request, and returns all received bytes when the connection closes. With `ends` the client half-closes after
 * the request, as `nc -N` does.
 */
export async function exchange(url: string, request: string | Uint8Array, { ends = false } = {}): Promise<string> {
  const socket = await open(url)
  if (ends) socket.end(request)
  else socket.write(request)
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  await new Promise((done) => socket.once('close', done))
  return Buffer.concat(chunks).toString('latin1')
}
