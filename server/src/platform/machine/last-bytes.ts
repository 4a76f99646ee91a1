import type { Socket } from 'node:net'

/**
 * Keeps a socket readable after a write has failed. Node instead destroys the socket and an answer that has arrived: a
 * server that refuses an upload closes the connection after its answer, while the rest of the upload is being written.
 * A failed write counts as done. The socket delivers all that the peer has sent, and then the end or the error.
 *
 * @returns a function that tells if a write has failed
 */
export function readLastBytes(socket: Socket): () => boolean {
  let failure: NodeJS.ErrnoException | null = null
  const write = socket._write
  const writev = socket._writev
  const tolerate =
    (done: (error?: Error | null) => void) =>
    (error?: Error | null): void => {
      if (error == null || socket.destroyed) {
        done(error)
        return
      }
      failure ??= error
      done()
    }
  socket._write = (chunk, encoding, done) => write.call(socket, chunk, encoding, tolerate(done))
  socket._writev = (chunks, done) => writev?.call(socket, chunks, tolerate(done))
  // The write has taken the error from the kernel, which reports an end to the next read. With EPIPE, the peer sent the
  // end before the reset; with every other error, the peer has sent no end.
  socket.on('end', () => {
    if (failure === null || failure.code === 'EPIPE') return
    socket.emit('error', failure)
    socket.destroy()
  })
  return () => failure !== null
}
