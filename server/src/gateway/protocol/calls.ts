import type { EdgeCalls } from './edge-calls.ts'
import { addCounts } from './latency.ts'

/** The address on which one instance of a release accepts connections. */
export interface AddressEndpoint {
  readonly host: string
  readonly port: number
}

/** The folder of a static site, by its absolute path without links: the gateway answers from it itself. */
export interface SiteEndpoint {
  readonly folder: string
  /** True when the routes of the site exist in the browser alone: a page answers for paths without a file. */
  readonly fallback?: true
}

export type Endpoint = AddressEndpoint | SiteEndpoint

/**
 * The version of the calls. Gateways break off a connection on which they are asked for something that they do not know.
 * Gateways from before static sites name no version. Gateways of version 2 know no edge, and gateways of version 3 know no `ping`.
 */
export const protocolVersion = 4

/** The release that answers for an app. */
export interface Upstream {
  readonly deploymentId: string
  readonly endpoints: readonly [Endpoint, ...Endpoint[]]
  /** Set when a client that has reached an instance goes on reaching it. Gateways of older versions ignore it. */
  readonly sticky?: Sticky
}

/** A cookie of the gateway's own, which names an instance by a key that tells nothing about it. */
export interface Sticky {
  /** Its name, which is Fairlead's: apps neither see nor set it. */
  readonly cookie: string
  /** One for each endpoint, in their order. */
  readonly keys: readonly string[]
}

/** The address at which the public reaches an app. The operator's configuration decides which of the two forms it has. */
export type PublicAddress = { readonly port: number } | { readonly hostname: string }

/** The requests of one app since its traffic was last taken. */
export interface AppTraffic {
  readonly appId: string
  readonly requests: number
  /** Answers of 500 and above, the gateway's own among them. */
  readonly errors: number
  /** Complete answers by the class of their status: 2xx, 3xx, 4xx and 5xx. Missing in gateways of older versions. */
  readonly answers?: readonly number[]
  /** The times until the heads of the app's answers, counted by their ranges (`times.ts`). Missing in older versions. */
  readonly times?: readonly number[]
}

/** An endpoint that refused a connection of the gateway, or a folder that it could not read. */
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
export interface Calls extends EdgeCalls {
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
  /** Results in the status that a site would answer on a path. The folder needs no route. */
  readonly probe: {
    readonly parameters: SiteEndpoint & { readonly path: string }
    readonly result: number
  }
  /** Results in the number of further processes of the gateway that do not answer at the moment. */
  readonly ping: { readonly parameters: null; readonly result: number }
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
    a.sticky?.cookie === b.sticky?.cookie &&
    a.sticky?.keys.join() === b.sticky?.keys.join() &&
    a.endpoints.every((endpoint, at) => keyOfEndpoint(endpoint) === keyOfEndpoint(b.endpoints[at] as Endpoint))
  )
}

/** Returns a text that is the same for the same endpoints alone. */
export function keyOfEndpoint(endpoint: Endpoint): string {
  if ('folder' in endpoint) return endpoint.fallback === true ? `${endpoint.folder} with a fallback` : endpoint.folder
  return `${endpoint.host}:${endpoint.port}`
}

/** Returns the folder of a release that is a static site; null for one that runs. */
export function siteOf({ endpoints }: Upstream): SiteEndpoint | null {
  const [endpoint] = endpoints
  return 'folder' in endpoint ? endpoint : null
}

/** Adds up the traffic of an app that two processes have counted, or one at two times. */
export function addTraffic(a: AppTraffic, b: AppTraffic): AppTraffic {
  return {
    appId: a.appId,
    requests: a.requests + b.requests,
    errors: a.errors + b.errors,
    answers: addCounts(a.answers ?? [], b.answers ?? []),
    times: addCounts(a.times ?? [], b.times ?? []),
  }
}
