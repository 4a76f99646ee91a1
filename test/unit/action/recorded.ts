import { createRequire } from 'node:module'

/** A payload that GitHub has sent, typed with the fields that the tests read. */
export interface Recorded {
  readonly action?: string
  readonly ref?: string
  readonly deleted?: boolean
  readonly repository?: { readonly full_name: string }
  readonly workflow_run?: { readonly conclusion: string | null; readonly pull_requests: readonly unknown[] }
}

interface RecordedEvent {
  readonly name: string
  readonly examples: readonly Recorded[]
}

/** All recorded events with their payloads. */
export const recordedEvents = createRequire(import.meta.url)('@octokit/webhooks-examples') as readonly RecordedEvent[]

/** Returns the first recorded payload of an event that matches. */
export function recorded(name: string, matches: (payload: Recorded) => boolean = () => true): Recorded {
  const found = recordedEvents.find((event) => event.name === name)?.examples.find(matches)
  if (found === undefined) throw new Error(`no recorded payload of ${name} matches`)
  return found
}
