import { readlinkSync, statfsSync, statSync } from 'node:fs'
import { list, readLink } from './proc-files.ts'
import { takingTurns } from './turns.ts'

/** The folders of a sandboxed process that are in memory, because programs insist on them. */
export const memoryFolders: readonly string[] = ['/dev/shm', '/tmp', '/run']
/** statfs(2): TMPFS_MAGIC. */
const tmpfs = 0x01_02_19_94

/**
 * Returns the bytes of files in memory that processes hold, such as memfd_create(2), and of the folders in memory of a
 * sandbox. What is both mapped and held by a descriptor cannot be told apart cheaply: the larger of both counts, which is at
 * least half of the truth and never more than it. Takes turns with other work, because an app can have millions of
 * descriptors.
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

/** Returns the anonymous file in memory that a descriptor leads to; `null` for any other. */
function memoryFileAt(path: string): [string, number] | null {
  try {
    if (!readlinkSync(path).startsWith('/memfd:')) return null
    const { dev, ino, blocks } = statSync(path)
    return [`${dev}:${ino}`, blocks * 512]
  } catch {
    // It was closed meanwhile.
    return null
  }
}

/**
 * Lists the folders in memory of a process that has mounts of its own. A sandbox that is being made has them already and still sees the
 * machine's folders, which hold what others have written: these do not count.
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

/** Returns the device of a folder of the machine; `null` where there is no such folder. */
function deviceOf(folder: string): number | null {
  return statSync(folder, { throwIfNoEntry: false })?.dev ?? null
}
