import type { WebSocket } from 'ws'

const pingMs = 20_000

/** Passes the messages of each connection to the other, at its pace, until one of them closes. */
export function bridge(client: WebSocket, leader: WebSocket): void {
  pass(client, leader)
  pass(leader, client)
  client.once('close', () => leader.terminate())
  // 1000 is a regular end, 1012 that of a server that stops (RFC 6455).
  leader.once('close', (code: number) => client.close(code === 1000 ? 1000 : 1012))
  leader.on('error', () => undefined)
}

function pass(from: WebSocket, to: WebSocket): void {
  from.on('message', (data, isBinary) => {
    from.pause()
    to.send(data, { binary: isBinary }, () => from.resume())
  })
}

/**
 * Closes a connection whose client does not answer pings: its machine may be gone without a word. While the connection is not
 * read, because the command does not read its input, no answer can be seen, and none is missed.
 */
export function watchClient(socket: WebSocket): void {
  let answered = true
  const answer = () => {
    answered = true
  }
  socket.on('pong', answer).on('message', answer)
  const timer = setInterval(() => {
    if (!answered && !socket.isPaused) return socket.terminate()
    answered = socket.isPaused
    socket.ping(() => undefined)
  }, pingMs)
  timer.unref()
  socket.once('close', () => clearInterval(timer))
}
