import type { ServerResponse } from 'node:http'

/** What an app was asked since this was last taken. Counted in place: it is on the way of every request. */
export interface Traffic {
  requests: number
  /** Answers of 500 and above, the gateway's own among them. */
  errors: number
}

export interface AppTraffic extends Readonly<Traffic> {
  readonly appId: string
}

/** Counts an answer, when it is complete or its client has gone. */
export function countAnswer(traffic: Traffic, res: ServerResponse): void {
  if (res.statusCode >= 500) traffic.errors += 1
}

/** What was counted, if anything; counted anew from now on. */
export function takeTraffic(appId: string, traffic: Traffic): AppTraffic[] {
  const { requests, errors } = traffic
  if (requests === 0 && errors === 0) return []
  traffic.requests = 0
  traffic.errors = 0
  return [{ appId, requests, errors }]
}
