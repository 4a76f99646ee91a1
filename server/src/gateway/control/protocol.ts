/** The address on which one instance of a release accepts connections. */
export interface Endpoint {
  readonly host: string
  readonly port: number
}

/** The release that answers for an app. */
export interface Upstream {
  readonly deploymentId: string
  readonly endpoints: readonly [Endpoint, ...Endpoint[]]
}

/** The address at which the public reaches an app. The operator's configuration decides which of the two forms it has. */
export type PublicAddress = { readonly port: number } | { readonly hostname: string }

/** The requests of one app since its traffic was last taken. */
export interface AppTraffic {
  readonly appId: string
  readonly requests: number
  /** Answers of 500 and above, the gateway's own among them. */
  readonly errors: number
}

/** An endpoint that refused a connection of the gateway. */
export interface RefusedEndpoint {
  readonly appId: string
  readonly deploymentId: string
  readonly endpoint: Endpoint
}

/** An app that the gateway answers for, with the upstream that is routed; null when none is. */
export interface OpenApp {
  readonly appId: string
  readonly address: PublicAddress
  readonly upstream: Upstream | null
}

/**
 * The calls that a gateway answers: for each its parameters and its result. All of it is plain data that survives JSON,
 * so `null` stands for "nothing". `client.ts` says what each call does.
 */
export interface Calls {
  readonly listen: { readonly parameters: null; readonly result: null }
  readonly open: {
    readonly parameters: { readonly appId: string; readonly address: PublicAddress }
    readonly result: null
  }
  readonly route: {
    readonly parameters: { readonly appId: string; readonly upstream: Upstream | null }
    /** The upstream that answered before. */
    readonly result: Upstream | null
  }
  readonly drain: {
    readonly parameters: { readonly upstream: Upstream; readonly timeoutMs: number }
    readonly result: null
  }
  readonly close: {
    readonly parameters: { readonly appId: string; readonly timeoutMs: number }
    readonly result: null
  }
  readonly takeTraffic: { readonly parameters: null; readonly result: readonly AppTraffic[] }
  /** Results in the requests since the traffic was last taken. */
  readonly stop: { readonly parameters: { readonly timeoutMs: number }; readonly result: readonly AppTraffic[] }
}

/** Calls between the processes of one gateway. A listening socket may travel with `adopt`. */
export interface InnerCalls extends Calls {
  /** Opens an app with its route in one step, or for null the port that all apps share. */
  readonly adopt: { readonly parameters: { readonly app: OpenApp | null }; readonly result: null }
  /**
   * Accepts no new connection, ends the others with their next answer, and cuts those that are left after `timeoutMs`.
   * Replies when none is left.
   */
  readonly retire: { readonly parameters: { readonly timeoutMs: number }; readonly result: null }
}

export type CallName = keyof InnerCalls

/** One call. The id is chosen by the caller and comes back in the reply. */
export interface CallRequest<Name extends CallName = CallName> {
  readonly type: 'request'
  readonly id: number
  readonly name: Name
  readonly parameters: InnerCalls[Name]['parameters']
}

/** Ends the waiting of a drain early; its reply follows. Ignored for a call that has been answered already. */
export interface CallCancellation {
  readonly type: 'cancel'
  readonly id: number
}

/** A message from a caller to a gateway. */
export type ToEngine = { [Name in CallName]: CallRequest<Name> }[CallName] | CallCancellation

/** An error as data. `code` is that of the system, such as `EADDRINUSE`; null when the error has none. */
export interface CallError {
  readonly message: string
  readonly code: string | null
}

/** The end of a call. */
export type Settlement =
  | { readonly type: 'reply'; readonly id: number; readonly result: InnerCalls[CallName]['result'] }
  | { readonly type: 'failure'; readonly id: number; readonly error: CallError }

export type Refusal = { readonly type: 'refused' } & RefusedEndpoint

/** True when both name the same deployment at the same endpoints. */
export function isSameUpstream(a: Upstream, b: Upstream): boolean {
  return (
    a.deploymentId === b.deploymentId &&
    a.endpoints.length === b.endpoints.length &&
    a.endpoints.every(({ host, port }, at) => host === b.endpoints[at]?.host && port === b.endpoints[at]?.port)
  )
}
