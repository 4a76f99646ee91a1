import { closeSync, openSync, readSync } from 'node:fs'
import { growingPause } from '../abort.ts'
import { forEachProcess, isMarked, type Marker } from './find.ts'
import { isRunning, isShortage, type ProcessIdentity, type ProcessStat, parseStat, readStat } from './stat.ts'

/** The pauses between checks of processes that were signalled: most killed processes are gone at once. */
const PAUSES = { firstMs: 1, longestMs: 20 }
/** After this time killed processes are searched for again: one may have forked just before it died. */
const RESCAN_MS = 250
/** Empty searches before the end is certain: a process has no readable environment for a moment while it calls exec. */
const EMPTY_SEARCHES = 2
/** Bubblewrap ends after its command, with its status, which a signal to bubblewrap would lose. */
const sandbox = 'bwrap'
/** The time that processes may survive SIGKILL (blocked in the kernel, or forking faster than they are killed). */
const KILL_DEADLINE_MS = 10_000

/**
 * Sends a signal to a process, or to a group by its negative number. All of the server sends signals through this
 * function. Returns false, without an error, when the process has just ended. Throws for another user's process.
 */
export function sendSignal(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}

/** Kills the rest of the group of a process that was started detached, and therefore leads the group. */
export const killGroup = (leader: number): boolean => sendSignal(-leader, 'SIGKILL')

export interface KillTarget {
  readonly marker?: Marker
  readonly leaders?: readonly ProcessIdentity[]
  /** Lists further processes; called at each search. */
  readonly members?: () => Promise<readonly number[]>
}

/**
 * Ends all processes with the marker, the leaders, and what belongs to either: children and members of their sessions,
 * also when they hide their environment (by setting their title, say). Sends SIGTERM once to each process, and SIGKILL
 * after `graceMs` (at once when 0), and searches again until no process is left. Returns early, without an error, when
 * `signal` aborts.
 *
 * @param options.fence called before processes are signalled; nothing is signalled when it throws
 * @throws Error when processes survive SIGKILL for ten seconds
 */
export async function killAll(
  target: KillTarget,
  options: { readonly graceMs: number; readonly signal?: AbortSignal; readonly fence?: () => void },
): Promise<void> {
  const { graceMs, signal, fence } = options
  // Set at the first SIGTERM, because the search through all processes may take long.
  let termUntil: number | undefined
  const known = new Set((target.leaders ?? []).map(keyOf))
  const sessions = new Set<number>()
  const terminated = new Set<string>()
  let emptySearches = 0
  for (;;) {
    const members = new Set(await target.members?.())
    const left = await selectProcesses(target.marker, members, known, sessions)
    if (signal?.aborted === true) return
    emptySearches = left.length === 0 ? emptySearches + 1 : 0
    if (emptySearches === EMPTY_SEARCHES) return
    if (emptySearches > 0) continue
    fence?.()
    const now = performance.now()
    termUntil ??= now + graceMs
    if (now >= termUntil) {
      if (now > termUntil + KILL_DEADLINE_MS) {
        throw new Error(`processes survive SIGKILL: ${left.map(({ pid }) => pid).join(', ')}`)
      }
      killNow(left)
      await untilGone(left, now + RESCAN_MS, signal)
      continue
    }
    for (const process of left) {
      if (terminated.has(keyOf(process)) || process.command === sandbox) continue
      terminated.add(keyOf(process))
      send(process, 'SIGTERM')
    }
    await untilGone(left, termUntil, signal)
  }
}

/**
 * Finds the processes to end that are still running. Adds them to `known` and `sessions`, so that the next search also
 * finds descendants whose parent has ended by then.
 */
async function selectProcesses(
  marker: Marker | undefined,
  members: ReadonlySet<number>,
  known: Set<string>,
  sessions: Set<number>,
): Promise<ProcessStat[]> {
  const table = new Map<number, ProcessStat>()
  const selected = new Map<number, ProcessStat>()
  const select = (stat: ProcessStat): void => {
    selected.set(stat.pid, stat)
    known.add(keyOf(stat))
    // A session is ours only when its leader is: a marked command in a terminal does not make the terminal ours.
    if (stat.session === stat.pid) sessions.add(stat.session)
  }
  await forEachProcess((pid) => {
    const stat = readStat(pid)
    if (stat === null || stat.ended || pid === process.pid || pid <= 1) return
    table.set(pid, stat)
    if (known.has(keyOf(stat)) || members.has(pid) || (marker !== undefined && isMarked(pid, marker))) select(stat)
  })
  for (let before = -1; before !== selected.size; ) {
    before = selected.size
    for (const stat of table.values()) {
      if (!selected.has(stat.pid) && (selected.has(stat.parent) || sessions.has(stat.session))) select(stat)
    }
  }
  return [...selected.values()]
}

function killNow(processes: readonly ProcessStat[]): void {
  // Members of a group cannot fork faster than the whole group is killed.
  for (const leader of processes) if (leader.group === leader.pid) send(leader, 'SIGKILL', -leader.pid)
  for (const process of processes) send(process, 'SIGKILL')
}

function send(identity: ProcessIdentity, signal: NodeJS.Signals, to = identity.pid): void {
  // The next search shows whether the signal had an effect.
  if (isRunning(identity)) sendSignal(to, signal)
}

async function untilGone(
  identities: readonly ProcessIdentity[],
  deadline: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  let left = identities
  const pause = growingPause(PAUSES)
  while (performance.now() < deadline && signal?.aborted !== true) {
    left = left.filter(isRunning)
    if (left.length === 0) return
    await pause(deadline - performance.now())
  }
}

const keyOf = ({ pid, startTime }: ProcessIdentity): string => `${pid}:${startTime}`

export interface ProcessExit {
  hasEnded(): boolean
  close(): void
}

const buffer = Buffer.alloc(1024)

/**
 * Keeps the file in /proc open. A read costs a fraction of opening it each time, and never shows another process with
 * the same pid: it fails with ESRCH.
 */
export function openExit(identity: ProcessIdentity): ProcessExit {
  let file: number | undefined
  const close = () => {
    if (file !== undefined) closeSync(file)
    file = undefined
  }
  return {
    hasEnded() {
      try {
        // Opened here: without a free descriptor, the next call tries again.
        file ??= openSync(`/proc/${identity.pid}/stat`, 'r')
        const stat = parseStat(buffer.toString('latin1', 0, readSync(file, buffer, 0, buffer.length, 0)))
        return stat === null || stat.ended || stat.startTime !== identity.startTime
      } catch {
        close()
        return hasCertainlyEnded(identity)
      }
    },
    close,
  }
}

/** False when /proc cannot be read now: a later check decides. */
function hasCertainlyEnded(identity: ProcessIdentity): boolean {
  try {
    return !isRunning(identity)
  } catch (error) {
    if (isShortage(error)) return false
    throw error
  }
}
