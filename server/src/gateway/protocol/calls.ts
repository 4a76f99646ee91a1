import type { EdgeCalls } from './edge-calls.ts'
import { addCounts } from './latency.ts'

export interface AddressEndpoint {
  readonly host: string
  readonly port: number
}

/** A folder that the gateway itself answers from: an absolute path without links. */
export interface SiteEndpoint {
  readonly folder: string
  /** True when the site's routes exist only in the browser: a page answers for paths without a file. */
  readonly fallback?: true
}

export type Endpoint = AddressEndpoint | SiteEndpoint

/**
 * Each gateway names this version in its welcome. It closes a connection with an unknown call, so a server makes a new
 * call only to a gateway of the version that added it.
 */
export const protocolVersion = 1

/** The release that answers for an app. */
export interface Upstream {
  readonly deploymentId: string
  readonly endpoints: readonly [Endpoint, ...Endpoint[]]
  /** Set when a client stays at the instance that it reached first. */
  readonly sticky?: Sticky
}

/** A cookie of the gateway with an opaque key of an instance. */
export interface Sticky {
  /** A name of Fairlead, so apps neither see nor set the cookie. */
  readonly cookie: string
  /** One key for each endpoint, in the order of the endpoints. */
  readonly keys: readonly string[]
}

/** The public address of an app. The operator's configuration decides between the two forms. */
export type PublicAddress = { readonly port: number } | { readonly hostname: string }

/** The requests of one app since its traffic was last taken. */
export interface AppTraffic {
  readonly appId: string
  readonly requests: number
  /** Answers of 500 and above, also the gateway's own. */
  readonly errors: number
  /** Complete answers by class: 2xx, 3xx, 4xx and 5xx. */
  readonly answers: readonly number[]
  /** The times until the heads of the app's answers, counted by range (`latency.ts`). */
  readonly times: readonly number[]
}

/** An endpoint that refused a connection, or a folder that the gateway could not read. */
export interface RefusedEndpoint {
  readonly appId: string
  readonly deploymentId: string
  readonly endpoint: Endpoint
}

export interface OpenApp {
  readonly appId: string
  readonly address: PublicAddress
  readonly upstream: Upstream | null
}

/**
 * Parameters and results are plain data that survives JSON, so `null` stands for "nothing". `client.ts` describes each
 * call.
 */
export interface Calls extends EdgeCalls {
  readonly listen: { readonly parameters: null; readonly result: null }
  readonly open: {
    readonly parameters: { readonly appId: string; readonly address: PublicAddress }
    readonly result: null
  }
  readonly route: {
    readonly parameters: { readonly appId: string; readonly upstream: Upstream | null }
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
  /** Returns the status that a site would answer for a path. The folder needs no route. */
  readonly probe: {
    readonly parameters: SiteEndpoint & { readonly path: string }
    readonly result: number
  }
  /** The number of workers that do not answer at the moment. */
  readonly ping: { readonly parameters: null; readonly result: number }
  readonly takeTraffic: { readonly parameters: null; readonly result: readonly AppTraffic[] }
  /** Returns the requests since the traffic was last taken. */
  readonly stop: { readonly parameters: { readonly timeoutMs: number }; readonly result: readonly AppTraffic[] }
}

/** Calls between the processes of one gateway. A listening socket may be sent along with `adopt`. */
export interface InnerCalls extends Calls {
  /** Opens an app with its route in one step; null opens the shared port. */
  readonly adopt: { readonly parameters: { readonly app: OpenApp | null }; readonly result: null }
  /**
   * Stops accepting, closes each connection with its next answer, and cuts the rest after `timeoutMs`. Replies when no
   * connection is left.
   */
  readonly retire: { readonly parameters: { readonly timeoutMs: number }; readonly result: null }
}

export type CallName = keyof InnerCalls

export interface CallRequest<Name extends CallName = CallName> {
  readonly type: 'request'
  readonly id: number
  readonly name: Name
  readonly parameters: InnerCalls[Name]['parameters']
}

/** Ends the waiting of a drain early; the reply follows. Ignored for a call that has been answered. */
export interface CallCancellation {
  readonly type: 'cancel'
  readonly id: number
}

export type ToEngine = { [Name in CallName]: CallRequest<Name> }[CallName] | CallCancellation

/** An error as data. `code` is the system's code, such as `EADDRINUSE`; null when the error has none. */
export interface CallError {
  readonly message: string
  readonly code: string | null
}

export type Settlement =
  | { readonly type: 'reply'; readonly id: number; readonly result: InnerCalls[CallName]['result'] }
  | { readonly type: 'failure'; readonly id: number; readonly error: CallError }

export type Refusal = { readonly type: 'refused' } & RefusedEndpoint

export function isSameUpstream(a: Upstream, b: Upstream): boolean {
  return (
    a.deploymentId === b.deploymentId &&
    a.endpoints.length === b.endpoints.length &&
    a.sticky?.cookie === b.sticky?.cookie &&
    a.sticky?.keys.join() === b.sticky?.keys.join() &&
    a.endpoints.every((endpoint, at) => keyOfEndpoint(endpoint) === keyOfEndpoint(b.endpoints[at] as Endpoint))
  )
}

export function keyOfEndpoint(endpoint: Endpoint): string {
  if ('folder' in endpoint) return endpoint.fallback === true ? `${endpoint.folder} with a fallback` : endpoint.folder
  return `${endpoint.host}:${endpoint.port}`
}

/** Returns the folder of a static site; null for a release that runs. */
export function siteOf({ endpoints }: Upstream): SiteEndpoint | null {
  const [endpoint] = endpoints
  return 'folder' in endpoint ? endpoint : null
}

/** Adds two counts of an app's traffic, from two processes or two periods. */
export function addTraffic(a: AppTraffic, b: AppTraffic): AppTraffic {
  return {
    appId: a.appId,
    requests: a.requests + b.requests,
    errors: a.errors + b.errors,
    answers: addCounts(a.answers, b.answers),
    times: addCounts(a.times, b.times),
  }
}
