import type { ServerResponse } from 'node:http'
import type { AppTraffic } from '../control/protocol.ts'

/** The counts of one app since they were last taken. Counted in place: every request passes here. */
export interface Traffic {
  requests: number
  /** Answers of 500 and above, the gateway's own among them. */
  errors: number
}

/** Counts an answer, when it is complete or its client has gone. */
export function countAnswer(traffic: Traffic, res: ServerResponse): void {
  if (res.statusCode >= 500) traffic.errors += 1
}

/** Returns the counts of an app, if there are any, and resets them. */
export function takeTraffic(appId: string, traffic: Traffic): AppTraffic[] {
  const { requests, errors } = traffic
  if (requests === 0 && errors === 0) return []
  traffic.requests = 0
  traffic.errors = 0
  return [{ appId, requests, errors }]
}
