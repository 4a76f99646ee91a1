import type { EventName } from '@fairlead/receiver'

/** Returns every pattern that matches an event: its name, its group such as `deployment.*`, and `*`. */
export function patternsFor(event: EventName): string[] {
  const group = event.includes('.') ? [`${event.split('.')[0]}.*`] : []
  return ['*', ...group, event]
}
