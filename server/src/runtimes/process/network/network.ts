import type { ProcessIdentity } from '../../../platform/processes.ts'

/** The network of an app or a build. */
export interface Network {
  /** The IPv4 address at which the host reaches it; `null` where it does by ports of its own. */
  readonly address: string | null
  /** The ports of the host's loopback that lead to it; `null` without. */
  readonly forward: Forward | null
  /** The program that enters the network and becomes the next one, with its arguments; it needs the rights of the server. */
  readonly enter: readonly string[]
  /** Resolves when it is whole; nothing of the owner may run in it before. Rejects when that fails. */
  readonly ready: Promise<void>
}

/** The ports of this machine's loopback that lead to an app; `ipv6` is `null` where pasta has no IPv6. */
export interface ForwardedPorts {
  /** At 127.0.0.1, and the app's own. */
  readonly ipv4: number
  /** At ::1: pasta takes no port twice. */
  readonly ipv6: number | null
}

/** Ports of the host's loopback that are the app's for as long as a process of the server's user exists. */
export interface Forward extends ForwardedPorts {
  readonly holder: ProcessIdentity
}
