import type { OpenApp } from './protocol/calls.ts'
import { createHostNames, type HostNames } from './protocol/host-names.ts'

/** The desired state of the gateway. A new gateway receives all of it. */
export interface DesiredState {
  readonly apps: Map<string, OpenApp>
  readonly names: HostNames
  /** Certificates by name; null for a certificate of an earlier server, whose content is unknown. */
  readonly certificates: Map<string, string | null>
  /** Answers by path; null for an answer of an earlier server. */
  readonly answers: Map<string, string | null>
}

export function createDesiredState(): DesiredState {
  return { apps: new Map(), names: createHostNames(), certificates: new Map(), answers: new Map() }
}
