import { createClient, type GatewayClient } from '../../../server/src/gateway/client.ts'
import { createDesiredState } from '../../../server/src/gateway/desired.ts'
import { createListeners } from '../../../server/src/gateway/link.ts'
import type { Refusal, RefusedEndpoint, Settlement, ToEngine } from '../../../server/src/gateway/protocol/calls.ts'
import { createCalls, serveCalls } from '../../../server/src/gateway/protocol/rpc.ts'
import { createEngine, type EngineOptions } from '../../../server/src/gateway/routing/router.ts'

/** A message from the engine to its caller. */
type FromEngine = Settlement | Refusal

/** One end of a channel between the client and the engine. */
interface Port<In, Out> {
  /** Throws when the message is not plain data. */
  post(message: Out): void
  /**
   * Sets the only receiver of messages. The receiver is called for each message in the order of sending, and must not
   * throw.
   */
  receive(receiver: (message: In) => void): void
}

type ClientPort = Port<FromEngine, ToEngine>
type EnginePort = Port<ToEngine, FromEngine>

/**
 * A gateway whose engine runs in this process. Messages travel as text, as between two processes, and are passed to
 * `record`.
 */
export function createGateway(
  options: Omit<EngineOptions, 'onRefused'>,
  record: (message: ToEngine | FromEngine) => void = () => {},
): GatewayClient {
  const channel = createChannel()
  const asText =
    <Message extends ToEngine | FromEngine>(post: (message: Message) => void) =>
    (message: Message) => {
      record(message)
      post(JSON.parse(JSON.stringify(message)))
    }
  const post = asText(channel.engine.post)
  const engine = createEngine({ ...options, onRefused: (refused) => post({ type: 'refused', ...refused }) })
  channel.engine.receive(serveCalls(engine.handlers, post))

  const refusals = createListeners<RefusedEndpoint>()
  const calls = createCalls(asText(channel.client.post))
  channel.client.receive((message) => {
    if (message.type !== 'refused') calls.settle(message)
    else refusals.emit({ appId: message.appId, deploymentId: message.deploymentId, endpoint: message.endpoint })
  })
  return createClient({
    call: calls.call,
    onRefused: refusals.add,
    onUncertified: () => () => {},
    desired: createDesiredState(),
  })
}

/**
 * A channel inside one process. It behaves like a channel between processes: messages are copies, and arrive later, in
 * order.
 */
function createChannel(): { readonly client: ClientPort; readonly engine: EnginePort } {
  const toEngine = createQueue<ToEngine>()
  const toClient = createQueue<FromEngine>()
  return {
    client: { post: toEngine.post, receive: toClient.receive },
    engine: { post: toClient.post, receive: toEngine.receive },
  }
}

/**
 * One direction of the channel. `setImmediate` keeps the process alive exactly while a message is in transit, and
 * leaves no handle to close. A `MessagePort` keeps the process alive always or never.
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
