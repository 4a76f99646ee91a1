import type { ProcessIdentity } from '../../../platform/processes.ts'

export interface Network {
  /** The IPv4 address of the network for the host; `null` when the host uses forwarded ports. */
  readonly address: string | null
  /** Ports on the loopback of the host that lead to the network; `null` without such ports. */
  readonly forward: Forward | null
  /** A command prefix that enters the network. It needs the server's rights. */
  readonly enter: readonly string[]
  /** Resolves when the network is complete: nothing of the owner may run in it before. Rejects when this fails. */
  readonly ready: Promise<void>
}

/** `ipv6` is `null` where pasta has no IPv6. */
export interface ForwardedPorts {
  /** The port on 127.0.0.1. The app has the same port. */
  readonly ipv4: number
  /** The port on ::1. It differs, because pasta accepts each port once. */
  readonly ipv6: number | null
}

/** The ports belong to the app while the `holder` process exists. */
export interface Forward extends ForwardedPorts {
  readonly holder: ProcessIdentity
}
