import type { ProcessIdentity } from '../../../platform/processes.ts'
import type { ForwardedPorts } from './pasta.ts'

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

/** Ports of the host's loopback that are the app's for as long as a process of the server's user exists. */
export interface Forward extends ForwardedPorts {
  readonly holder: ProcessIdentity
}
