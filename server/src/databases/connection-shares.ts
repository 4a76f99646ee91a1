export interface ConnectionUse {
  readonly name: string
  readonly sessions: number
  /** The most sessions that its role may have at present. */
  readonly limit: number
}

/** The most sessions that the role of a database may have from now on. */
export interface ConnectionLimit {
  readonly name: string
  readonly limit: number
}

export interface LimitChanges {
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
