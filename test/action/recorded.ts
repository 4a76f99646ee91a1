import { createRequire } from 'node:module'

/** A payload as GitHub has sent it, of which the tests name the fields that they look at. */
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

/** Every event that was recorded, with its payloads. */
export const recordedEvents = createRequire(import.meta.url)('@octokit/webhooks-examples') as readonly RecordedEvent[]

/** The first recorded payload of an event that fits. */
export function recorded(name: string, fits: (payload: Recorded) => boolean = () => true): Recorded {
  const found = recordedEvents.find((event) => event.name === name)?.examples.find(fits)
  if (found === undefined) throw new Error(`no payload of ${name} was recorded that fits`)
  return found
}
