import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { SocketAddress } from 'node:net'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

/*
 * Who a process is, which processes belong together, which ports they listen on, and how to end them all.
 * Everything is read from Linux's /proc (proc(5)). A process may vanish between any two reads: that is never an error.
 * The reads are synchronous because /proc is memory, not disk; a walk over all processes yields every few milliseconds.
 */

/** A process that cannot be confused with a later one of the same pid. */
export interface ProcessIdentity {
  readonly pid: number
  /** Clock ticks since boot, as in /proc. */
  readonly startTime: string
}

/** An environment variable that marks the processes which belong together. */
export interface Marker {
  readonly name: string
  readonly value: string
}

/** A TCP socket in LISTEN state. */
export interface ListeningSocket {
  readonly port: number
  /** `0.0.0.0`, `127.0.0.1`, `::`, `::1`, … */
  readonly address: string
  readonly inode: string
  /** Whom the socket belongs to. */
  readonly uid: number
}

interface ProcessStat extends ProcessIdentity {
  /** Short name of the executable. */
  readonly command: string
  readonly parent: number
  readonly group: number
  readonly session: number
  /** A zombie: it has ended and waits for its parent to notice. */
  readonly ended: boolean
}

/** Of x64 and of most arm64 systems; where it is larger, memory is counted too low. */
const PAGE_BYTES = 4096
/** How long a walk over all processes may hold the event loop at a stretch. */
const SLICE_MS = 5
/** How often the end of signalled processes is looked for. */
const POLL_MS = 20
/** After this time a killed process is looked for again: it may have forked just before it died. */
const RESCAN_MS = 250
/** Who forks without end must not keep a walk going without end. */
const MOST_WALKS = 10
/** For a moment, while it becomes another program, a process has no environment that could be read. */
const LOOKS_WITHOUT = 2
/** How long processes may survive SIGKILL (blocked in the kernel, or forking faster than they are killed). */
const KILL_DEADLINE_MS = 10_000

/** The start time of a process, also of one that has ended but not been waited for; `null` when there is none. */
export function startTimeOf(pid: number): string | null {
  return readStat(pid)?.startTime ?? null
}

/** Whether exactly this process exists and has not ended. */
export function isRunning(identity: ProcessIdentity): boolean {
  const stat = readStat(identity.pid)
  return stat !== null && !stat.ended && stat.startTime === identity.startTime
}

/** The user whose rights the process has; `null` when it is gone. */
export function userOf(pid: number): number | null {
  const uids = /^Uid:\t\d+\t(\d+)/m.exec(read(`/proc/${pid}/status`) ?? '')
  return uids?.[1] === undefined ? null : Number(uids[1])
}

/** The bytes of memory that a process has for itself alone; 0 when it is gone. */
export function unsharedMemoryOf(pid: number): number {
  const [, resident = 0, shared = 0] = (read(`/proc/${pid}/statm`) ?? '').split(' ').map(Number)
  return (resident - shared) * PAGE_BYTES
}

/** All processes whose environment holds exactly `NAME=value`, daemons included, in ascending order. */
export async function findProcesses(marker: Marker): Promise<number[]> {
  const found: number[] = []
  await forEachProcess((pid) => {
    if (isMarked(pid, marker)) found.push(pid)
  })
  return found.sort((a, b) => a - b)
}

/** The values that processes carry under this name in their environment. */
export async function markedValues(name: string): Promise<Set<string>> {
  const values = new Set<string>()
  const start = `${name}=`
  await forEachProcess((pid) => {
    const entries = read(`/proc/${pid}/environ`)?.split('\0') ?? []
    for (const entry of entries) if (entry.startsWith(start)) values.add(entry.slice(start.length))
  })
  return values
}

/** The process itself and all it has started, as far as an unbroken line of parents leads. */
export async function familyOf(pid: number): Promise<number[]> {
  const children = childrenOf(pid) === null ? await childrenFromTable() : childrenOf
  const family = new Set([pid])
  // A set walks over what is added on the way.
  for (const member of family) for (const child of children(member) ?? []) family.add(child)
  return [...family]
}

/**
 * All TCP sockets of this machine that listen, IPv4 and IPv6. Where no connection is open the kernel walks over its
 * whole table for the answer, which takes it milliseconds; Node's thread pool waits for it.
 */
export async function listeningSockets(): Promise<ListeningSocket[]> {
  const sockets: ListeningSocket[] = []
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
    for await (const line of linesOf(table)) {
      const [slot, local, , state, , , , uid, , inode] = line.trim().split(/\s+/)
      if (slot === 'sl') continue
      // The listening sockets (state 0A) come before all others, of which there may be very many.
      if (state !== '0A' || local === undefined || inode === undefined) break
      const [address = '', port = ''] = local.split(':')
      sockets.push({ port: Number.parseInt(port, 16), address: parseAddress(address), inode, uid: Number(uid) })
    }
  }
  return sockets
}

/** The TCP sockets in LISTEN state that these processes hold open. */
export async function listeningPorts(pids: readonly number[]): Promise<ListeningSocket[]> {
  const held = new Set(pids.flatMap((pid) => socketsHeldBy(pid) ?? []))
  if (held.size === 0) return []
  return (await listeningSockets()).filter((socket) => held.has(socket.inode))
}

/**
 * The inodes of the sockets, of any kind, that a process holds open; `null` when that cannot be seen: it is gone, or it
 * is another user's and this process lacks CAP_SYS_PTRACE.
 */
export function socketsHeldBy(pid: number): string[] | null {
  const folder = `/proc/${pid}/fd`
  const targets = list(folder)?.map((descriptor) => readLink(`${folder}/${descriptor}`))
  // Root may list the descriptors, and only with that capability see what they are.
  if (targets === undefined || (targets.length > 0 && targets.every((target) => target === null))) return null
  return targets.flatMap((target) => /^socket:\[(\d+)\]$/.exec(target ?? '')?.[1] ?? [])
}

/**
 * Ends every process that carries the marker, the leaders, and all that belongs to either: their children and the
 * members of their sessions, which catches processes that hide their environment (by setting their title, say).
 * SIGTERM first, once to each; SIGKILL after `graceMs` (at once when 0). Looks again until none is left, or `signal`
 * aborts: then it leaves off without an error.
 *
 * @throws Error when processes outlive SIGKILL by ten seconds
 */
export async function killAll(
  target: {
    readonly marker?: Marker
    readonly leaders?: readonly ProcessIdentity[]
    /** Further processes, asked for at each look. */
    readonly members?: () => Promise<readonly number[]>
  },
  { graceMs, signal }: { readonly graceMs: number; readonly signal?: AbortSignal },
): Promise<void> {
  // Their time begins when they are told: a look at all processes may take long.
  let termUntil: number | undefined
  const known = new Set((target.leaders ?? []).map(keyOf))
  const sessions = new Set<number>()
  const terminated = new Set<string>()
  let looksWithout = 0
  for (;;) {
    const members = new Set(await target.members?.())
    const left = await selectProcesses(target.marker, members, known, sessions)
    if (signal?.aborted === true) return
    looksWithout = left.length === 0 ? looksWithout + 1 : 0
    if (looksWithout === LOOKS_WITHOUT) return
    if (looksWithout > 0) continue
    const now = performance.now()
    termUntil ??= now + graceMs
    if (now >= termUntil) {
      if (now > termUntil + KILL_DEADLINE_MS) {
        throw new Error(`processes outlive SIGKILL: ${left.map(({ pid }) => pid).join(', ')}`)
      }
      killNow(left)
      await untilGone(left, now + RESCAN_MS, signal)
      continue
    }
    for (const process of left) {
      if (terminated.has(keyOf(process))) continue
      terminated.add(keyOf(process))
      send(process, 'SIGTERM')
    }
    await untilGone(left, termUntil, signal)
  }
}

/** Adds what it finds to `known` and `sessions`, so that the next look still knows it when its parent has gone. */
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
    // Only a session whose leader is ours is ours: a marked command in somebody's terminal is not.
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
  // A whole group dies at once, so that its members cannot fork faster than they are killed.
  for (const leader of processes) if (leader.group === leader.pid) send(leader, 'SIGKILL', -leader.pid)
  for (const process of processes) send(process, 'SIGKILL')
}

function send(identity: ProcessIdentity, signal: NodeJS.Signals, to = identity.pid): void {
  if (!isRunning(identity)) return
  try {
    process.kill(to, signal)
  } catch {
    // It has just gone, or it is not ours to end: the next look tells.
  }
}

async function untilGone(
  identities: readonly ProcessIdentity[],
  deadline: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  let left = identities
  while (performance.now() < deadline && signal?.aborted !== true) {
    left = left.filter(isRunning)
    if (left.length === 0) return
    await sleep(Math.min(POLL_MS, Math.max(1, deadline - performance.now())))
  }
}

const keyOf = ({ pid, startTime }: ProcessIdentity): string => `${pid}:${startTime}`

/** Also visits what begins during the walk, so that a process cannot pass its work on to one that is not listed. */
async function forEachProcess(visit: (pid: number) => void): Promise<void> {
  let sliceEnd = performance.now() + SLICE_MS
  const visited = new Set<number>()
  for (let walk = 0; walk < MOST_WALKS; walk += 1) {
    const found = processIds().filter((pid) => !visited.has(pid))
    if (found.length === 0) return
    for (const pid of found) {
      visited.add(pid)
      visit(pid)
      if (performance.now() > sliceEnd) {
        await nextTurn()
        sliceEnd = performance.now() + SLICE_MS
      }
    }
  }
}

const processIds = (): number[] => (list('/proc') ?? []).map(Number).filter(Number.isInteger)

function readStat(pid: number): ProcessStat | null {
  const stat = parseStat(read(`/proc/${pid}/stat`) ?? '')
  return stat === null ? null : { pid, ...stat }
}

/** Reads `/proc/<pid>/stat` (proc(5)). The command is in parentheses and may itself hold spaces and parentheses. */
export function parseStat(text: string): Omit<ProcessStat, 'pid'> | null {
  const end = text.lastIndexOf(')')
  const [state, parent, group, session, ...rest] = text.slice(end + 2).split(' ')
  const startTime = rest[15]
  if (end < 0 || startTime === undefined) return null
  return {
    command: text.slice(text.indexOf('(') + 1, end),
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    startTime,
    ended: state === 'Z' || state === 'X',
  }
}

function isMarked(pid: number, { name, value }: Marker): boolean {
  const entry = Buffer.from(`${name}=${value}`).toString('latin1')
  const environment = read(`/proc/${pid}/environ`)
  return environment?.includes(entry) === true && environment.split('\0').includes(entry)
}

/** `null` where the kernel does not list children (CONFIG_PROC_CHILDREN) or the process is gone. */
function childrenOf(pid: number): number[] | null {
  const threads = list(`/proc/${pid}/task`)
  const lists = threads?.map((thread) => read(`/proc/${pid}/task/${thread}/children`))
  if (lists === undefined || lists.every((text) => text === null)) return null
  return lists.flatMap((text) => (text ?? '').split(' ').filter(Boolean).map(Number))
}

async function childrenFromTable(): Promise<(pid: number) => number[]> {
  const children = new Map<number, number[]>()
  await forEachProcess((pid) => {
    const stat = readStat(pid)
    if (stat !== null) children.set(stat.parent, [...(children.get(stat.parent) ?? []), pid])
  })
  return (pid) => children.get(pid) ?? []
}

/** The kernel writes an address as 32-bit words in the byte order of the machine (little-endian on x64 and arm64). */
function parseAddress(hex: string): string {
  const bytes = Buffer.from(hex, 'hex').swap32()
  if (bytes.length === 4) return bytes.join('.')
  const groups = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(index * 2).toString(16))
  return new SocketAddress({ address: groups.join(':'), family: 'ipv6' }).address
}

/** Reads no further than its consumer asks. */
async function* linesOf(path: string): AsyncGenerator<string> {
  const file = await open(path).catch(() => null)
  if (file === null) return
  try {
    let rest = ''
    for (;;) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(16 * 1024))
      if (bytesRead === 0) return
      const lines = (rest + buffer.toString('latin1', 0, bytesRead)).split('\n')
      rest = lines.pop() ?? ''
      yield* lines
    }
  } finally {
    await file.close()
  }
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return null
  }
}

function readLink(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch {
    return null
  }
}

function list(path: string): string[] | null {
  try {
    return readdirSync(path)
  } catch {
    return null
  }
}
