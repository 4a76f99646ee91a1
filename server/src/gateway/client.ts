import type { ClientPort } from './control/channel.ts'
import type {
  AppTraffic,
  CallError,
  CallName,
  Calls,
  FromEngine,
  PublicAddress,
  RefusedEndpoint,
  ToEngine,
  Upstream,
} from './control/protocol.ts'

export type { AppTraffic, Endpoint, PublicAddress, RefusedEndpoint, Upstream } from './control/protocol.ts'

export interface DrainOptions {
  /** After this time the requests that still run are cut. */
  readonly timeoutMs: number
  /** Ends the waiting: the requests that still run go on. */
  readonly signal?: AbortSignal
}

/**
 * Public traffic to apps, as the server sees it. The engine looks a route up for each request, so a switch drops no
 * connection.
 */
export interface Gateway {
  /**
   * Starts to answer for an app: 503 until a release is routed. Does nothing for one that is open already.
   * Rejects with code `EADDRINUSE` when somebody else holds the address.
   */
  open(appId: string, address: PublicAddress): Promise<void>
  /** True when nobody else holds the address. For a port the gateway listens on it for a moment. */
  isFree(address: PublicAddress): Promise<boolean>
  /**
   * Sends new requests to `upstream`, or answers them with 503 for `null`. Resolves when the gateway has confirmed the
   * switch, with the upstream that answered before. Rejects for an app that is not open.
   */
  route(appId: string, upstream: Upstream | null): Promise<Upstream | null>
  /** The upstream that the gateway confirmed last; null when none. Answered from the client's memory. */
  current(appId: string): Upstream | null
  /**
   * Resolves when no request or upgraded connection is left on `upstream`; after `timeoutMs` the rest is cut. When
   * `signal` aborts it resolves early, and nothing is cut. Rejects while `upstream` is still routed.
   */
  drain(upstream: Upstream, options: DrainOptions): Promise<void>
  /** Stops answering for an app at once; running requests get `timeoutMs` to finish, none without it. */
  close(appId: string, options?: { readonly timeoutMs: number }): Promise<void>
  /** Resolves with the requests since the last call, of apps that had any; also of those that were closed since. */
  takeTraffic(): Promise<AppTraffic[]>
  /**
   * Calls the listener when an upstream's endpoint refuses a connection: once for each upstream and endpoint until it is
   * routed again. Returns a function that removes the listener.
   */
  onRefused(listener: (refused: RefusedEndpoint) => void): () => void
  /** Stops everything; running requests get `timeoutMs` to finish. */
  stop(options: { readonly timeoutMs: number }): Promise<void>
}

/** A gateway with the call that opens the port that all apps share. Resolves at once when every app has its own port. */
export type GatewayClient = Gateway & { listen(): Promise<void> }

/** Creates the server's side of the channel: sends calls, waits for their replies and remembers the confirmed routes. */
export function createClient(port: ClientPort): GatewayClient {
  const routes = new Map<string, Upstream>()
  const listeners = new Set<(refused: RefusedEndpoint) => void>()
  const { call, settle } = createCalls(port.post)

  port.receive((message) => {
    if (message.type === 'refused') {
      const { type: _, ...refused } = message
      for (const listener of listeners) listener(refused)
    } else if (message.type === 'routed') {
      if (message.upstream === null) routes.delete(message.appId)
      else routes.set(message.appId, message.upstream)
    } else settle(message)
  })

  return {
    listen: async () => void (await call('listen', null)),
    open: async (appId, address) => void (await call('open', { appId, address })),
    isFree: (address) => call('isFree', { address }),
    route: (appId, upstream) => call('route', { appId, upstream }),
    current: (appId) => routes.get(appId) ?? null,
    drain: async (upstream, { timeoutMs, signal }) => void (await call('drain', { upstream, timeoutMs }, signal)),
    close: async (appId, { timeoutMs } = { timeoutMs: 0 }) => void (await call('close', { appId, timeoutMs })),
    takeTraffic: async () => [...(await call('takeTraffic', null))],
    onRefused(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    stop: async ({ timeoutMs }) => void (await call('stop', { timeoutMs })),
  }
}

type Settlement = Extract<FromEngine, { type: 'reply' | 'failure' }>

/** Gives each call an id by which its reply is found. When `signal` aborts, the call is cancelled and the engine replies. */
function createCalls(post: (message: ToEngine) => void): {
  call<Name extends CallName>(
    name: Name,
    parameters: Calls[Name]['parameters'],
    signal?: AbortSignal,
  ): Promise<Calls[Name]['result']>
  settle(message: Settlement): void
} {
  const pending = new Map<number, (message: Settlement) => void>()
  let lastId = 0

  return {
    call(name, parameters, signal) {
      lastId += 1
      const id = lastId
      const cancel = () => post({ type: 'cancel', id })
      return new Promise((resolve, reject) => {
        post({ type: 'request', id, name, parameters } as ToEngine)
        pending.set(id, (message) => {
          signal?.removeEventListener('abort', cancel)
          if (message.type === 'failure') reject(errorOf(message.error))
          else resolve(message.result as Calls[typeof name]['result'])
        })
        if (signal?.aborted) cancel()
        else signal?.addEventListener('abort', cancel, { once: true })
      })
    },
    settle(message) {
      pending.get(message.id)?.(message)
      pending.delete(message.id)
    },
  }
}

function errorOf({ message, code }: CallError): Error {
  return code === null ? new Error(message) : Object.assign(new Error(message), { code })
}
