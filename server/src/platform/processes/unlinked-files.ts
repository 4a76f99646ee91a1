import { type BigIntStats, statSync } from 'node:fs'
import { list, readLink } from './proc-files.ts'
import { takingTurns } from './turns.ts'

/**
 * Returns the bytes of files that have no name any more and that these processes hold open: no walk over folders finds
 * them. Takes turns with other work.
 *
 * @param folder on the disk that counts; 0 without it
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
    // It was closed meanwhile.
    return null
  }
}
