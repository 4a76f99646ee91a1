import type { OpenApp } from './protocol/calls.ts'
import { createHostNames, type HostNames } from './protocol/host-names.ts'

/** The desired state of the gateway. A gateway that is started in place of another one receives all of it. */
export interface Known {
  readonly apps: Map<string, OpenApp>
  readonly names: HostNames
  /** Keyed by name; null for a certificate of an earlier server, whose content is unknown. */
  readonly certificates: Map<string, string | null>
  /** Keyed by path; null for an answer of an earlier server. */
  readonly answers: Map<string, string | null>
}

export function createKnown(): Known {
  return { apps: new Map(), names: createHostNames(), certificates: new Map(), answers: new Map() }
}
