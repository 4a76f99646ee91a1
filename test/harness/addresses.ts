import type { AddressEndpoint, Endpoint } from '../../server/src/gateway/protocol/calls.ts'

/** Returns the address of the first endpoint; throws for a static site, which has none. */
export function addressOf({
  endpoints: [endpoint],
}: {
  readonly endpoints: readonly [Endpoint, ...Endpoint[]]
}): AddressEndpoint {
  if ('folder' in endpoint) throw new Error(`${endpoint.folder} is a site`)
  return endpoint
}
