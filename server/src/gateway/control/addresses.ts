/** Tells apps apart: each by a port of its own, or all behind one port by their host names. */
export type AppAddresses =
  | { readonly mode: 'ports' }
  | {
      readonly mode: 'hostnames'
      readonly port: number
      /** The scheme that the public uses: `https` behind a proxy that ends TLS. */
      readonly scheme: 'http' | 'https'
    }
