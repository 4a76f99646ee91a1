import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { syncDirectory } from '../../platform/files.ts'
import type { FileStore } from '../store.ts'
import { createBatchWriter } from './batch-writer.ts'

/**
 * Opens a store in a folder of the local disk, which is created if needed. A file is `<last two characters of the
 * key>/<key>`, with the suffix `.part` until it is finished.
 */
export async function createDiskStore({ directory }: { directory: string }): Promise<FileStore> {
  await mkdir(directory, { recursive: true, mode: 0o700 })

  // The end of a file id is random; its beginning is a time, which would put new files into the same folder.
  const pathOf = (key: string) => join(directory, key.slice(-2), key)
  const partPathOf = (key: string) => `${pathOf(key)}.part`

  return {
    async create(key) {
      const path = pathOf(key)
      const created = await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      if (created !== undefined) await syncDirectory(directory)
      const handle = await open(partPathOf(key), 'wx', 0o600)
      const writer = createBatchWriter(handle)
      return {
        write: writer.write,
        async finish() {
          await writer.flush()
          await handle.sync()
          await handle.close()
          await rename(partPathOf(key), path)
          await syncDirectory(dirname(path))
        },
        async abort() {
          // A write still under way after `close` would go to whatever file gets the same descriptor next.
          await writer.flush().catch(() => undefined)
          await handle.close()
        },
      }
    },
    async read(key, range) {
      // Opening the file reveals a missing one, also when no bytes are requested: a stream cannot express an empty range.
      const empty = range.end < range.start
      const stream = createReadStream(pathOf(key), empty ? {} : range)
      await once(stream, 'open')
      if (!empty) return stream
      stream.destroy()
      return Readable.from([])
    },
    async remove(key) {
      // The unfinished file first: once it is gone, a writer that is still at work cannot rename it any more.
      const removed = [await removeIfPresent(partPathOf(key)), await removeIfPresent(pathOf(key))]
      if (removed.includes(true)) await syncDirectory(dirname(pathOf(key)))
    },
  }
}

/** Removes a file; false when there was none. */
async function removeIfPresent(path: string): Promise<boolean> {
  try {
    await rm(path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}
