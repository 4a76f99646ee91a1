import { connect, type Socket } from 'node:net'

/** A connection to a server on which a test writes what it likes. */
export function open(url: string): Promise<Socket> {
  const { port, hostname } = new URL(url)
  return new Promise((done, fail) => {
    const socket = connect(Number(port), hostname, () => {
      socket.off('error', fail)
      // A cut connection is an answer, too.
      socket.on('error', () => undefined)
      done(socket)
    })
    socket.once('error', fail)
  })
}

/** Everything that comes back on a connection until it is closed. */
export async function exchange(url: string, request: string | Uint8Array): Promise<string> {
  const socket = await open(url)
  socket.write(request)
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  await new Promise((done) => socket.once('close', done))
  return Buffer.concat(chunks).toString('latin1')
}
