import type { FromEngine, ToEngine } from './protocol.ts'

/** One end of a channel between the client and the engine. */
export interface Port<In, Out> {
  /** Sends a message. Throws when it is not plain data. */
  post(message: Out): void
  /** Sets the one receiver of messages. It is called for each message in the order of sending, and must not throw. */
  receive(receiver: (message: In) => void): void
}

export type ClientPort = Port<FromEngine, ToEngine>
export type EnginePort = Port<ToEngine, FromEngine>

/** A channel inside one process. It behaves as one between two processes: messages are copies, and arrive later, in order. */
export function createChannel(): { readonly client: ClientPort; readonly engine: EnginePort } {
  const toEngine = createQueue<ToEngine>()
  const toClient = createQueue<FromEngine>()
  return {
    client: { post: toEngine.post, receive: toClient.receive },
    engine: { post: toClient.post, receive: toEngine.receive },
  }
}

/**
 * One direction of the channel. `setImmediate` keeps the process alive exactly while a message is on its way, which a
 * `MessagePort` does always or never, and leaves no handle to close.
 */
function createQueue<Message>(): { post(message: Message): void; receive(to: (message: Message) => void): void } {
  let receiver: (message: Message) => void = () => {}
  return {
    post(message) {
      const copy = structuredClone(message)
      setImmediate(() => receiver(copy))
    },
    receive(to) {
      receiver = to
    },
  }
}
