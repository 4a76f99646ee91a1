import type { Plan } from '../../platform/plans.ts'
import type { Restriction } from './rows.ts'

export interface DatabaseLimits {
  /** Above this size the database is read-only. */
  readonly bytes: number
  /**
   * Above this size nobody can log in for some time after each growth. Only clients that switch read-only mode off can
   * reach it.
   */
  readonly ceilingBytes: number
  readonly connections: number
  /** PostgreSQL's `work_mem`: memory for each sort or hash of a statement. */
  readonly workMemoryMb: number
  /** PostgreSQL's `temp_file_limit`: temporary files of one session. */
  readonly temporaryMb: number
}

/** Derives the limits from a plan's `database_gb` and `memory_mb`; the plan may set the connections itself. */
export function databaseLimits({
  database_gb,
  memory_mb,
  database_connections,
}: Pick<Plan, 'database_gb' | 'memory_mb' | 'database_connections'>): DatabaseLimits {
  const bytes = Math.round(database_gb * 1e9)
  return {
    bytes,
    ceilingBytes: Math.round(bytes * 1.5),
    connections: database_connections ?? clamp(Math.round(10 * Math.sqrt(database_gb)), 10, 100),
    workMemoryMb: clamp(Math.floor(memory_mb / 128), 1, 32),
    temporaryMb: clamp(Math.round(database_gb * 100), 64, 10_000),
  }
}

/** A restriction is lifted at this share of the limit, so that a size near the limit does not toggle it. */
const hysteresis = 0.98

/** Returns the restriction for a size, with 2 % hysteresis. */
export function restrictionFor(sizeBytes: number, limits: DatabaseLimits, current: Restriction): Restriction {
  const ceiling = limits.ceilingBytes * (current === 'no_login' ? hysteresis : 1)
  const limit = limits.bytes * (current === 'none' ? 1 : hysteresis)
  if (sizeBytes > ceiling) return 'no_login'
  return sizeBytes > limit ? 'read_only' : 'none'
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value))
}

/** A database far above its size: its owner may make it smaller, but is locked out for some time after each growth. */
export interface Shrinking {
  /** The size in bytes up to which nothing happens: a little more than the smallest measured size. */
  readonly allowance: number
  /** The time (as in `Date.now()`) until which nobody can log in; `null` while users can. */
  readonly closedUntil: number | null
  readonly nextLockoutMs: number
}

const firstLockoutMs = 5 * 60_000
const longestLockoutMs = 24 * 60 * 60_000

/** Deleting and vacuuming write a little, such as maps of free space and the catalogue. */
const slack = (limits: DatabaseLimits): number => Math.max(8_000_000, limits.bytes / 100)

/**
 * Returns the state after a measurement. Between two measurements a database can grow only by what is written in that
 * time, and lockouts get longer, up to a day.
 */
export function nextShrinking(
  state: Shrinking | undefined,
  sizeBytes: number,
  limits: DatabaseLimits,
  now: number,
): Shrinking {
  const allowance = sizeBytes + slack(limits)
  if (state === undefined) return { allowance, closedUntil: null, nextLockoutMs: firstLockoutMs }
  if (state.closedUntil !== null) return now < state.closedUntil ? state : { ...state, allowance, closedUntil: null }
  if (sizeBytes <= state.allowance) return { ...state, allowance: Math.min(state.allowance, allowance) }
  const { nextLockoutMs } = state
  return {
    allowance,
    closedUntil: now + nextLockoutMs,
    nextLockoutMs: Math.min(longestLockoutMs, nextLockoutMs * 2),
  }
}

export interface ConnectionUse {
  readonly name: string
  readonly sessions: number
  /** The most sessions of the role at present. */
  readonly limit: number
}

export interface ConnectionLimit {
  readonly name: string
  readonly limit: number
}

interface LimitChanges {
  /** Databases with more sessions than their share of a nearly full instance. */
  readonly lower: readonly ConnectionLimit[]
  /** Databases that get their former limit back, because there is room even if they use all of it. */
  readonly raise: readonly ConnectionLimit[]
}

/** The connections that every database may have, even in a full instance. */
export const leastShare = 3

/**
 * Decides which limits change so that every database can connect. The limits of plans may add up to more than an
 * instance has, because few databases reach their limits. When users need many connections, the databases with the most
 * sessions are reduced to a common number.
 *
 * @param uses of the databases that have sessions or a lowered limit
 * @param lowered the former limits of the databases with lowered limits, by name
 * @param most the connections for all sessions of users together
 */
export function limitChanges(
  uses: readonly ConnectionUse[],
  lowered: ReadonlyMap<string, number>,
  most: number,
): LimitChanges {
  const used = uses.reduce((sum, { sessions }) => sum + sessions, 0)
  if (used > most) {
    const limit = shareOf(
      uses.map(({ sessions }) => sessions),
      most,
    )
    return { lower: uses.filter(({ sessions }) => sessions > limit).map(({ name }) => ({ name, limit })), raise: [] }
  }
  const raise: ConnectionLimit[] = []
  let free = most - used
  for (const { name, sessions } of uses) {
    const limit = lowered.get(name)
    if (limit === undefined) continue
    // A plan may allow more than an instance has.
    const further = Math.max(0, Math.min(limit, most) - sessions)
    if (further > free) continue
    free -= further
    raise.push({ name, limit })
  }
  return { lower: [], raise }
}

/**
 * Returns the largest number of sessions per database for which the total is at most `most`; never less than
 * `leastShare`.
 */
function shareOf(sessions: readonly number[], most: number): number {
  let share = sessions.reduce((most, each) => Math.max(most, each), 0)
  while (share > leastShare && sessions.reduce((sum, each) => sum + Math.min(each, share), 0) > most) share--
  return share
}
