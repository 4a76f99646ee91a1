import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { syncDirectory } from '../../platform/files.ts'
import type { FileStore } from './store.ts'

/**
 * Opens a store in a folder on the local disk, and creates the folder if needed. A file is `<last two characters of the
 * key>/<key>`, with the suffix `.part` until it is finished.
 */
export async function createDiskStore({ directory }: { directory: string }): Promise<FileStore> {
  await mkdir(directory, { recursive: true, mode: 0o700 })

  // The end of a file id is random. The beginning is a time, which would put new files into the same folder.
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
          // A write that continued after `close` would go to the next file with the same descriptor.
          await writer.flush().catch(() => undefined)
          await handle.close()
        },
      }
    },
    async read(key, range) {
      // Opens the file even when no bytes are requested, to detect a missing file. A stream cannot express an empty
      // range.
      const empty = range.end < range.start
      const stream = createReadStream(pathOf(key), empty ? {} : range)
      await once(stream, 'open')
      if (!empty) return stream
      stream.destroy()
      return Readable.from([])
    },
    async remove(key) {
      // Removes the unfinished file first: then a writer that is still at work cannot rename it any more.
      const removed = [await removeIfPresent(partPathOf(key)), await removeIfPresent(pathOf(key))]
      if (removed.includes(true)) await syncDirectory(dirname(pathOf(key)))
    },
  }
}

async function removeIfPresent(path: string): Promise<boolean> {
  try {
    await rm(path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

/** The size of a buffer. Each upload has at most two buffers. */
const batchBytes = 256 * 1024

export interface BatchWriter {
  write(bytes: Uint8Array): Promise<void>
  /** Resolves when the operating system has all bytes so far; rejects when a write has failed. */
  flush(): Promise<void>
}

/**
 * Collects bytes in one buffer while the other buffer is written. The bytes are copied, so that the chunks of a request
 * are freed at once: chunks that wait for a slow disk would survive a garbage collection and take much memory in many
 * uploads.
 */
function createBatchWriter(handle: FileHandle): BatchWriter {
  let filling = Buffer.allocUnsafeSlow(batchBytes)
  let spare: Buffer<ArrayBuffer> | undefined
  let filled = 0
  let writing = Promise.resolve()

  const swap = async () => {
    await writing
    const full = filling
    writing = writeAll(handle, full.subarray(0, filled))
    // An error reaches the caller of the next `swap` or `flush`.
    writing.catch(() => undefined)
    filling = spare ?? Buffer.allocUnsafeSlow(batchBytes)
    spare = full
    filled = 0
  }
  return {
    async write(bytes) {
      for (let at = 0; at < bytes.length; ) {
        const taken = bytes.subarray(at, at + batchBytes - filled)
        filling.set(taken, filled)
        filled += taken.length
        at += taken.length
        if (filled === batchBytes) await swap()
      }
    },
    async flush() {
      await swap()
      await writing
    },
  }
}

async function writeAll(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let rest = bytes; rest.length > 0; ) {
    const { bytesWritten } = await handle.write(rest)
    rest = rest.subarray(bytesWritten)
  }
}
