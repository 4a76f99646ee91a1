export interface Endpoint {
  readonly host: string
  readonly port: number
}
/** The release that answers for an app. */
export interface Upstream {
  readonly deploymentId: string
  readonly endpoints: readonly [Endpoint, ...Endpoint[]]
}
export type PublicAddress = { readonly port: number } | { readonly hostname: string }
export interface DrainOptions {
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}
export interface AppTraffic {
  readonly appId: string
  readonly requests: number
  readonly errors: number
}
export interface Gateway {
  open(appId: string, address: PublicAddress): Promise<void>
  isFree(address: PublicAddress): Promise<boolean>
  route(appId: string, upstream: Upstream | null): Promise<Upstream | null>
  current(appId: string): Upstream | null
  drain(upstream: Upstream, options: DrainOptions): Promise<void>
  close(appId: string, options?: { readonly timeoutMs: number }): Promise<void>
  takeTraffic(): Promise<AppTraffic[]>
  onRefused(listener: (refused: { appId: string; deploymentId: string; endpoint: Endpoint }) => void): () => void
  stop(options: { readonly timeoutMs: number }): Promise<void>
}
