import type { ProcessIdentity } from '../../../platform/processes.ts'

export interface Network {
  /** For the host; `null` when the host uses forwarded ports. */
  readonly address: string | null
  /** On the host's loopback, leading to the network. */
  readonly forward: Forward | null
  /** A command prefix that enters the network. It needs the server's rights. */
  readonly enter: readonly string[]
  /** Nothing of the owner may run in the network before. Rejects when the network cannot be completed. */
  readonly ready: Promise<void>
}

/** `ipv6` is `null` where pasta has no IPv6. */
export interface ForwardedPorts {
  /** On 127.0.0.1. The app has the same port. */
  readonly ipv4: number
  /** On ::1. It differs, because pasta accepts each port once. */
  readonly ipv6: number | null
}

/** The ports belong to the app while the `holder` process exists. */
export interface Forward extends ForwardedPorts {
  readonly holder: ProcessIdentity
}
