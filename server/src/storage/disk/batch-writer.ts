import type { FileHandle } from 'node:fs/promises'

/** Size of a buffer. Each upload has at most two. */
const batchBytes = 256 * 1024

export interface BatchWriter {
  write(bytes: Uint8Array): Promise<void>
  /** Resolves when everything so far was handed to the operating system; rejects when a write has failed. */
  flush(): Promise<void>
}

/**
 * Collects bytes in one buffer while another one is written. The bytes are copied, so that the chunks of a request are
 * free at once: chunks that wait for a slow disk would survive a garbage collection, and the memory of many uploads
 * would grow by them.
 */
export function createBatchWriter(handle: FileHandle): BatchWriter {
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
