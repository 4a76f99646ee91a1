import { createLane, isIdle, type Lane, shouldRead } from './lane.ts'

/** The lanes of all endpoints that have something to send. */
export interface Lanes {
  /** Returns the lane of an endpoint, a new one if there is none. */
  of(webhookId: string): Lane
  all(): Lane[]
  /** Called after a change of a lane: requests a read for it, or removes it when it is idle. */
  update(lane: Lane): void
}

/** `onUnread` is called when a lane should be read from the database. */
export function createLanes({ onUnread }: { onUnread: () => void }): Lanes {
  const lanes = new Map<string, Lane>()
  return {
    of(webhookId) {
      const lane = lanes.get(webhookId) ?? createLane(webhookId)
      lanes.set(webhookId, lane)
      return lane
    },
    all: () => [...lanes.values()],
    update(lane) {
      if (shouldRead(lane)) onUnread()
      else if (isIdle(lane, performance.now())) lanes.delete(lane.webhookId)
    },
  }
}
