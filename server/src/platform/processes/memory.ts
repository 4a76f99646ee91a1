import { read } from './proc-files.ts'
import { heldInMemory } from './shared-memory.ts'
import { isShortage } from './shortage.ts'
import { takingTurns } from './turns.ts'

/** The memory of a machine in bytes. */
export interface MachineMemory {
  /** All that no file on a disk backs: the processes' own and shared memory, files in memory, page tables, and swap. */
  readonly used: number
  /** An estimate of what processes can still get, without what is swapped out for it. */
  readonly available: number
  readonly total: number
}

/** Returns the memory of this machine; `null` when the system does not say. */
export function machineMemory(): MachineMemory | null {
  try {
    return parseMachineMemory(read('/proc/meminfo') ?? '')
  } catch (error) {
    if (isShortage(error)) return null
    throw error
  }
}

/** Parses `/proc/meminfo` (proc(5)). */
export function parseMachineMemory(text: string): MachineMemory | null {
  const bytes = bytesIn(text)
  const total = bytes('MemTotal')
  if (total === 0) return null
  const swapped = bytes('SwapTotal') - bytes('SwapFree')
  const used = bytes('AnonPages') + bytes('Shmem') + bytes('PageTables') + swapped
  return { used, available: bytes('MemAvailable'), total }
}

/**
 * Returns the bytes of memory that processes use together: resident or swapped out, without the files on a disk that they
 * have mapped, and without addresses that are only reserved. What several of them share counts once.
 *
 * @param enough ends the measurement when there are more; the result is then some number above it
 */
export async function memoryOfProcesses(pids: Iterable<number>, enough = Number.POSITIVE_INFINITY): Promise<number> {
  const pause = takingTurns()
  const members = [...pids]
  let own = 0
  let mapped = 0
  for (const pid of members) {
    const parts = parseProcessMemory(read(`/proc/${pid}/smaps_rollup`), read(`/proc/${pid}/status`) ?? '')
    own += parts.own
    mapped += parts.mapped
    await pause()
  }
  // The files in memory come last, because a process may have millions of descriptors.
  if (own + mapped > enough) return own + mapped
  return own + Math.max(mapped, await heldInMemory(members))
}

/**
 * Reads the bytes of a process: its own, and those in mapped shared memory. `smaps_rollup` divides pages among the
 * processes that share them (the kernel's filesystems/proc.rst). A process may hide it from others, and old kernels lack
 * it: then shared pages count for each process.
 *
 * @param status `/proc/<pid>/status`, which every user can read
 */
export function parseProcessMemory(rollup: string | null, status: string): { own: number; mapped: number } {
  const [divided, whole] = [bytesIn(rollup ?? ''), bytesIn(status)]
  const tables = whole('VmPTE')
  if (/^Pss_Anon:/m.test(rollup ?? '')) {
    return { own: divided('Pss_Anon') + divided('SwapPss') + tables, mapped: divided('Pss_Shmem') }
  }
  return { own: whole('RssAnon') + whole('VmSwap') + tables, mapped: whole('RssShmem') }
}

/** Reads lines of `name: value kB`; what is missing is 0. */
const bytesIn =
  (text: string) =>
  (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0) * 1024
