import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'

/** How much of an upload waits for the disk in memory. */
const batchBytes = 256 * 1024

/** Where the bytes of files are kept, by file id. */
export interface FileStore {
  /** Begins a file. It is in doubt until it is confirmed or discarded. */
  create(id: string): Promise<NewFile>
  /** Puts a file in doubt: whoever comes after a crash asks whether it is still wanted. */
  doubt(id: string): Promise<void>
  /** Ends the doubt: the file stays. */
  confirm(id: string): Promise<void>
  /** Removes a file, whole or not, and ends the doubt. May be repeated. */
  discard(id: string): Promise<void>
  /** The ids in doubt. */
  doubtful(): Promise<string[]>
  /** These bytes of a file, the first and the last included. Rejects when it is not there. */
  read(id: string, range: { readonly start: number; readonly end: number }): Promise<Readable>
}

export interface NewFile {
  /** Takes more bytes. Resolves when there is room for others. */
  write(bytes: Uint8Array): Promise<void>
  /** Resolves when the file is whole in its place, and would be after a loss of power. */
  finish(): Promise<void>
  /** Gives up writing; `discard` removes what there is. */
  abandon(): Promise<void>
}

/**
 * A store on the local disk: `<first two of the id's end>/<id>`, and `doubtful/` with an empty file for each id whose
 * fate is open and the unfinished files themselves. So only what was under way at a crash is looked at after it,
 * and nothing is ever removed that the server was not just making or deleting.
 */
export async function createDiskStore({ directory }: { directory: string }): Promise<FileStore> {
  const doubts = join(directory, 'doubtful')
  await mkdir(doubts, { recursive: true, mode: 0o700 })

  // The end of an id is random, its beginning is the time.
  const finalPath = (id: string) => join(directory, id.slice(-2), id)
  const partPath = (id: string) => join(doubts, `${id}.part`)
  const doubt = async (id: string) => {
    await writeEmpty(join(doubts, id))
    await syncDirectory(doubts)
  }

  return {
    async create(id) {
      await writeEmpty(join(doubts, id))
      const handle = await open(partPath(id), 'wx', 0o600)
      const writer = createBatchWriter(handle)
      return {
        write: writer.write,
        async finish() {
          await writer.settle()
          await handle.sync()
          await handle.close()
          await syncDirectory(doubts)
          const folder = dirname(finalPath(id))
          const made = await mkdir(folder, { recursive: true, mode: 0o700 })
          await rename(partPath(id), finalPath(id))
          await syncDirectory(folder)
          if (made !== undefined) await syncDirectory(directory)
        },
        async abandon() {
          // What is being written would else go to whoever has the descriptor next.
          await writer.settle().catch(() => undefined)
          await handle.close()
        },
      }
    },
    doubt,
    confirm: (id) => rm(join(doubts, id), { force: true }),
    async discard(id) {
      await rm(partPath(id), { force: true })
      await removeForGood(finalPath(id))
      await rm(join(doubts, id), { force: true })
    },
    async doubtful() {
      const names = await readdir(doubts)
      return [...new Set(names.map((name) => name.replace(/\.part$/, '')))]
    },
    async read(id, range) {
      // What is not there is told by opening it; an empty range cannot be said to a stream.
      const empty = range.end < range.start
      const stream = createReadStream(finalPath(id), empty ? {} : range)
      await once(stream, 'open')
      if (!empty) return stream
      stream.destroy()
      return Readable.from([])
    },
  }
}

/**
 * Collects bytes in one buffer while another one is written. Whoever sends them has them back at once: pieces that wait
 * for a slow disk would outlive their generation of the heap, and the memory of many uploads would grow by that.
 */
function createBatchWriter(handle: FileHandle): { write(bytes: Uint8Array): Promise<void>; settle(): Promise<void> } {
  let filling = Buffer.allocUnsafeSlow(batchBytes)
  let spare: Buffer<ArrayBuffer> | undefined
  let filled = 0
  let writing = Promise.resolve()

  const flush = async () => {
    await writing
    const full = filling
    writing = writeAll(handle, full.subarray(0, filled))
    // Whoever flushes or settles next is told.
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
        if (filled === batchBytes) await flush()
      }
    },
    async settle() {
      await flush()
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

async function writeEmpty(path: string): Promise<void> {
  const handle = await open(path, 'w', 0o600)
  await handle.close()
}

/** The file must not come back after a loss of power: nobody would be in doubt about it any more. */
async function removeForGood(path: string): Promise<void> {
  try {
    await rm(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  await syncDirectory(dirname(path))
}

/** Makes names in a folder last: a file's own sync says nothing about its name. */
async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
