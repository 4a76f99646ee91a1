import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'

/** A WebSocket to an app made by `releaseApp`, which sends back what it is sent. */
export interface Conversation extends AsyncDisposable {
  /** The release at the other end. */
  readonly release: number
  /** When it ended, by the clock of `performance.now()`. */
  readonly ended: Promise<number>
  /** Gives whether a message came back, or the conversation has ended. Rejects when another one came. */
  echo(): Promise<boolean>
  /** Sends one message after another until the conversation ends; gives when it did. */
  goOn(): Promise<number>
  close(): Promise<void>
}

const pauseMs = 20

/** Opens a WebSocket at the address of the app. Rejects when there is none to be had. */
export async function startConversation(url: string): Promise<Conversation> {
  const socket = new WebSocket(new URL('/chat', url.replace(/^http/, 'ws')))
  const ended = new Promise<number>((done) => socket.on('close', () => done(performance.now())))
  const opened = Promise.all([once(socket, 'upgrade'), once(socket, 'open')])
  // It ends the conversation, which says enough.
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
