import type { Handle } from '../../runtimes/runtime.ts'
import { DeploymentError } from './failure.ts'
import type { DeploymentRow } from './tables.ts'

/*
 * The decisions about running releases, as pure functions: when an ended release starts again, when a silent release
 * counts as ended, when health is checked, and which app stops when the disk is full.
 */

/** Decides when an ended release starts again, and when it has restarted too often. Times are in milliseconds. */
export interface Restarts {
  isDue(id: string, now: number): boolean
  note(id: string, now: number): void
  /** Records that the last start has just failed: a start may take longer than the calm time. */
  noteFailure(id: string, now: number): void
  /**
   * Reverts the last note, because the machine could not start it: that is not a crash. The next start is due after a
   * pause that doubles each time, up to a minute.
   */
  postpone(id: string, now: number): void
  /** True when it has restarted as often as allowed, without a calm time in between. */
  isLoop(id: string, now: number): boolean
  forget(id: string): void
}

/** This many restarts, each within a minute of the previous restart, are a crash loop. */
const restartsAllowed = 5
const calmMs = 60_000
/** The first restart is immediate; further restarts follow after 1, 2, 4 and 8 s. */
const firstPauseMs = 1_000
const longestPostponeMs = 60_000

interface Seen {
  readonly count: number
  readonly lastAt: number
  readonly postponed: number
  readonly notBefore: number
}

export function createRestarts(): Restarts {
  const seen = new Map<string, Seen>()
  const current = (id: string, now: number): Seen => {
    const restarts = seen.get(id)
    if (restarts === undefined) return { count: 0, lastAt: -Infinity, postponed: 0, notBefore: -Infinity }
    return now - restarts.lastAt > calmMs ? { ...restarts, count: 0, lastAt: -Infinity } : restarts
  }
  return {
    isDue(id, now) {
      const { count, lastAt, notBefore } = current(id, now)
      if (now < notBefore) return false
      return count === 0 || now - lastAt >= firstPauseMs * 2 ** (count - 1)
    },
    note(id, now) {
      const restarts = current(id, now)
      seen.set(id, { ...restarts, count: restarts.count + 1, lastAt: now })
    },
    noteFailure(id, now) {
      const restarts = seen.get(id)
      if (restarts !== undefined) seen.set(id, { ...restarts, lastAt: now })
    },
    postpone(id, now) {
      const { count, lastAt, postponed } = current(id, now)
      const pauseMs = Math.min(longestPostponeMs, firstPauseMs * 2 ** postponed)
      seen.set(id, { count: Math.max(0, count - 1), lastAt, postponed: postponed + 1, notBefore: now + pauseMs })
    },
    isLoop: (id, now) => current(id, now).count >= restartsAllowed,
    forget(id) {
      seen.delete(id)
    },
  }
}

export interface Silences {
  /**
   * Records that an instance does not listen now. True when that lasts too long. Until then, a supervisor in the app
   * may restart its worker.
   */
  isTooLong(handle: Handle, now: number): boolean
}

const recoverMs = 5_000
/** An instance that was recorded longer ago has listened in between, or is gone. */
const forgottenMs = 60_000

export function createSilences(): Silences {
  const silent = new Map<string, { readonly since: number; seen: number }>()
  return {
    isTooLong(handle, now) {
      for (const [key, { seen }] of silent) if (now - seen > forgottenMs) silent.delete(key)
      const key = JSON.stringify(handle)
      const silence = silent.get(key) ?? { since: now, seen: now }
      silence.seen = now
      silent.set(key, silence)
      return now - silence.since > recoverMs
    },
  }
}

export const failuresAllowed = 3
export const mostChecksPerSecond = 10

const checkEveryMs = 10_000
const checkAgainMs = 5_000

/** Returns the failures in a row after a check, and whether the instance must be restarted. */
export function afterCheck(
  failuresBefore: number,
  isHealthy: boolean,
): { readonly failures: number; readonly isUnhealthy: boolean } {
  const failures = isHealthy ? 0 : failuresBefore + 1
  return { failures, isUnhealthy: failures >= failuresAllowed }
}

/**
 * Returns the milliseconds until the next check of an instance. Many instances are each checked less often, so that the
 * checks cost no more.
 */
export function nextCheckMs(failures: number, instances: number): number {
  const turnMs = (instances / mostChecksPerSecond) * 1_000
  return Math.max(failures === 0 ? checkEveryMs : checkAgainMs, turnMs)
}

/** An app that has written less than this since the last round does not fill the disk. */
const leastGrowth = 1_000_000

export interface Measured {
  readonly row: DeploymentRow
  readonly bytes: number
  readonly before: number | undefined
}

interface Space {
  readonly freeBytes: number
  readonly reserveBytes: number
  readonly criticalBytes: number
}

/**
 * Returns the app to stop while less than the reserve is free: the app that has written the most since the last round.
 * When the disk is critically full, no app can write: then it is the largest app, if the app holds more than the
 * reserve.
 */
export function appToStop(apps: readonly Measured[], space: Space): DeploymentRow | undefined {
  if (space.freeBytes >= space.reserveBytes) return undefined
  const growth = ({ bytes, before = bytes }: Measured) => bytes - before
  const writer = apps.toSorted((one, other) => growth(other) - growth(one))[0]
  if (writer !== undefined && growth(writer) >= leastGrowth) return writer.row
  if (space.freeBytes >= space.criticalBytes) return undefined
  const largest = apps.toSorted((one, other) => other.bytes - one.bytes)[0]
  return largest !== undefined && largest.bytes > space.reserveBytes ? largest.row : undefined
}

export function diskFull(): DeploymentError {
  return new DeploymentError(
    'run',
    'no_space',
    'The app was stopped: the disk of the server is nearly full, and of all apps it wrote the most. HOME and TMPDIR stay ' +
      'as they are. Tell the operator of the server, and restart the app when there is room.',
  )
}
