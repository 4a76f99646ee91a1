import type { OpenApp } from './protocol/calls.ts'
import { createHostNames, type HostNames } from './protocol/host-names.ts'

/** The desired state of the gateway. A gateway that is started in place of another one is given all of it. */
export interface Known {
  readonly apps: Map<string, OpenApp>
  readonly names: HostNames
  /** By name; null for one of an earlier server, of which this one knows the name alone. */
  readonly certificates: Map<string, string | null>
  /** By path; null as above. */
  readonly answers: Map<string, string | null>
}

export function createKnown(): Known {
  return { apps: new Map(), names: createHostNames(), certificates: new Map(), answers: new Map() }
}
