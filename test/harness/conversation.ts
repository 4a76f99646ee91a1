import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'

/** A WebSocket to an app made by `releaseApp`, which echoes every message. */
export interface Conversation extends AsyncDisposable {
  readonly release: number
  /** Resolves to the closing time by the clock of `performance.now()`. */
  readonly ended: Promise<number>
  /** Resolves to true when a message is echoed, to false when the WebSocket closes. Rejects on another message. */
  echo(): Promise<boolean>
  /** Sends one message after another until the WebSocket closes, and resolves to the closing time. */
  goOn(): Promise<number>
  close(): Promise<void>
}

const pauseMs = 20

/** Opens a WebSocket at the app's address. */
export async function startConversation(url: string): Promise<Conversation> {
  const socket = new WebSocket(new URL('/chat', url.replace(/^http/, 'ws')))
  const ended = new Promise<number>((done) => socket.on('close', () => done(performance.now())))
  const opened = Promise.all([once(socket, 'upgrade'), once(socket, 'open')])
  // An error closes the WebSocket, which `ended` reports.
  socket.on('error', () => undefined)
  const [[response]] = (await opened) as [[IncomingMessage], unknown]
  let messages = 0

  const echo = async (): Promise<boolean> => {
    messages += 1
    const text = `message ${messages}`
    const answer = once(socket, 'message').then(([data]) => String(data))
    socket.send(text, () => undefined)
    const said = await Promise.race([answer, ended])
    if (typeof said === 'string' && said !== text) throw new Error(`sent ${text}, and ${said} came back`)
    return said === text
  }

  return {
    release: Number(response.headers['x-release']),
    ended,
    echo,
    async goOn() {
      while (await echo()) await sleep(pauseMs)
      return ended
    },
    async close() {
      socket.close()
      await ended
    },
    async [Symbol.asyncDispose]() {
      socket.terminate()
      await ended
    },
  }
}
