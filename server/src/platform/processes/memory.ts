import { type BigIntStats, readlinkSync, statfsSync, statSync } from 'node:fs'
import { takingTurns } from './find.ts'
import { isShortage, list, read, readLink } from './stat.ts'

export interface MachineMemory {
  /**
   * Memory that no file on a disk backs: private and shared memory of processes, files in memory, page tables, and
   * swap.
   */
  readonly used: number
  /** An estimate of the memory that processes can still get without swapping. */
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

export function parseMachineMemory(text: string): MachineMemory | null {
  const bytes = bytesIn(text)
  const total = bytes('MemTotal')
  if (total === 0) return null
  const swapped = bytes('SwapTotal') - bytes('SwapFree')
  const used = bytes('AnonPages') + bytes('Shmem') + bytes('PageTables') + swapped
  return { used, available: bytes('MemAvailable'), total }
}

/**
 * Returns the bytes of memory that processes use together: resident or swapped out, without the files on a disk that
 * they have mapped, and without addresses that are only reserved. Shared memory counts once.
 *
 * @param enough ends the measurement above this number of bytes; the result is then any number above it
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
  // Files in memory come last, because a process may have millions of descriptors.
  if (own + mapped > enough) return own + mapped
  return own + Math.max(mapped, await heldInMemory(members))
}

/**
 * Reads the bytes of a process: private memory (`own`), and mapped shared memory (`mapped`). `smaps_rollup` divides
 * pages among the processes that share them (the kernel's filesystems/proc.rst). A process may hide it from others, and
 * old kernels lack it: then shared pages count for each process.
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

/** Reads lines of `name: value kB`; a missing line counts as 0. */
const bytesIn =
  (text: string) =>
  (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0) * 1024

/** The folders of a sandboxed process that are in memory, because programs insist on them. */
export const memoryFolders: readonly string[] = ['/dev/shm', '/tmp', '/run']
/** statfs(2): TMPFS_MAGIC. */
const tmpfs = 0x01_02_19_94

/**
 * Returns the bytes of files in memory that processes hold, such as memfd_create(2), and of the folders in memory of a
 * sandbox. It is slow to find out which files are both mapped and held by a descriptor. So callers use the larger of
 * both numbers, which is at least half of the truth and never more. Takes turns with other work, because an app can
 * have millions of descriptors.
 */
export async function heldInMemory(pids: Iterable<number>): Promise<number> {
  const pause = takingTurns()
  const held = new Map<string, number>()
  for (const pid of pids) {
    for (const fd of list(`/proc/${pid}/fd`) ?? []) {
      const found = memoryFileAt(`/proc/${pid}/fd/${fd}`)
      if (found !== null) held.set(...found)
      await pause()
    }
    for (const [folder, bytes] of memoryFoldersOf(pid)) held.set(folder, bytes)
  }
  return [...held.values()].reduce((sum, bytes) => sum + bytes, 0)
}

/** Returns the key and bytes of the anonymous file in memory behind a descriptor; `null` for any other file. */
function memoryFileAt(path: string): [string, number] | null {
  try {
    if (!readlinkSync(path).startsWith('/memfd:')) return null
    const { dev, ino, blocks } = statSync(path)
    return [`${dev}:${ino}`, blocks * 512]
  } catch {
    // It was closed in between.
    return null
  }
}

/**
 * Lists the folders in memory of a process with separate mounts, and their bytes. A new sandbox has separate mounts
 * before it has its own folders, and still sees the folders of the machine, which do not count.
 */
function memoryFoldersOf(pid: number): [string, number][] {
  const mounts = readLink(`/proc/${pid}/ns/mnt`)
  if (mounts === null || mounts === readLink('/proc/self/ns/mnt')) return []
  return memoryFolders.flatMap((folder): [string, number][] => {
    try {
      const path = `/proc/${pid}/root${folder}`
      const { type, blocks, bfree, bsize } = statfsSync(path)
      const isOwn = type === tmpfs && statSync(path).dev !== deviceOf(folder)
      return isOwn ? [[`${mounts}${folder}`, (blocks - bfree) * bsize]] : []
    } catch {
      return []
    }
  })
}

function deviceOf(folder: string): number | null {
  return statSync(folder, { throwIfNoEntry: false })?.dev ?? null
}

/**
 * Returns the bytes of unlinked files that these processes hold open: no walk over folders finds them. Takes turns with
 * other work.
 *
 * @param folder a folder on the disk that counts; the result is 0 when it does not exist
 */
export async function unlinkedBytesOf(pids: Iterable<number>, folder: string): Promise<number> {
  const disk = fileAt(folder)?.dev
  const pause = takingTurns()
  const found = new Map<bigint, bigint>()
  for (const pid of pids) {
    for (const fd of list(`/proc/${pid}/fd`) ?? []) {
      await pause()
      const path = `/proc/${pid}/fd/${fd}`
      const file = readLink(path)?.endsWith(' (deleted)') === true ? fileAt(path) : null
      if (file?.dev === disk && file?.isFile() && file.nlink === 0n) found.set(file.ino, file.blocks * 512n)
    }
  }
  return Number([...found.values()].reduce((sum, bytes) => sum + bytes, 0n))
}

function fileAt(path: string): BigIntStats | null {
  try {
    return statSync(path, { bigint: true })
  } catch {
    // It was closed in between.
    return null
  }
}
