import type { Socket } from 'node:net'

/** Longer lines cost the connection: more than a message about ten thousand apps. */
const MAX_LINE_BYTES = 16 * 1024 * 1024

/**
 * Carries messages over a connection, each as one line of JSON. A line that is too long or no JSON object destroys the
 * connection. `receive` may throw, with the same effect. Returns the function that sends.
 */
export function carryLines<In extends object, Out extends object>(
  socket: Socket,
  receive: (message: In) => void,
): (message: Out) => void {
  let parts: string[] = []
  let length = 0

  const add = (part: string): void => {
    length += part.length
    if (length > MAX_LINE_BYTES) throw new Error('a line is too long')
    parts.push(part)
  }

  const finish = (): void => {
    const line = parts.join('')
    parts = []
    length = 0
    const message: unknown = JSON.parse(line)
    if (typeof message !== 'object' || message === null) throw new Error('a message is no object')
    receive(message as In)
  }

  socket.setEncoding('utf8')
  socket.on('data', (chunk: string) => {
    try {
      const [first = '', ...others] = chunk.split('\n')
      add(first)
      for (const part of others) {
        if (socket.destroyed) return
        finish()
        add(part)
      }
    } catch (error) {
      socket.destroy(error as Error)
    }
  })
  return (message) => {
    if (socket.writable) socket.write(`${JSON.stringify(message)}\n`)
  }
}
