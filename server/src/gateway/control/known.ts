import { createHostNames, type HostNames } from './host-names.ts'
import type { OpenApp } from './protocol.ts'

/** Everything that a server knows its gateway to have, or wants it to have: another gateway is given it. */
export interface Known {
  readonly apps: Map<string, OpenApp>
  readonly names: HostNames
  /** By name; null for one that the gateway had before this server led it, which has not got the text of it. */
  readonly certificates: Map<string, string | null>
  /** By path; null as above. */
  readonly answers: Map<string, string | null>
}

export function createKnown(): Known {
  return { apps: new Map(), names: createHostNames(), certificates: new Map(), answers: new Map() }
}
