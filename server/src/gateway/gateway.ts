/** Where an app is reached from outside. Exactly one of the two forms, decided by the operator's configuration. */
export type PublicAddress = { readonly port: number } | { readonly hostname: string }

/** The running release that answers for an app. */
export interface Upstream {
  readonly deploymentId: string
  readonly host: string
  readonly port: number
}

/**
 * Public traffic to apps. Routes are looked up for each request, so a switch is one assignment and
 * no connection is dropped by it.
 */
export interface Gateway {
  /**
   * Starts to answer for an app: 503 until a release is routed.
   * Rejects with `code: 'EADDRINUSE'` when the app's port is taken by somebody else.
   */
  open(appId: string, address: PublicAddress): Promise<void>
  /** Sends new requests to `upstream` (or answers 503 for `null`) from now on. Returns the upstream that answered before. */
  route(appId: string, upstream: Upstream | null): Upstream | null
  /** The upstream that answers now. */
  current(appId: string): Upstream | null
  /** Resolves when no request or upgraded connection is left on `upstream`; after `timeoutMs` the rest is cut. */
  drain(upstream: Upstream, options: { timeoutMs: number }): Promise<void>
  /** Stops answering for an app. */
  close(appId: string): Promise<void>
  /** Stops everything; running requests get `timeoutMs` to finish. */
  stop(options: { timeoutMs: number }): Promise<void>
}
