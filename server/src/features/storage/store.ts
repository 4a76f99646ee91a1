import type { Readable } from 'node:stream'
import type { ByteRange } from '../../platform/conditional-requests.ts'

/**
 * Stores the bytes of files under keys that the caller chooses (file ids). A store knows nothing about the database:
 * the rows in `files` and `pending_files` decide which files should exist.
 */
export interface FileStore {
  /** Begins a file. Reads under the key fail until the writer has finished. */
  create(key: string): Promise<FileWriter>
  /** Returns a range of a file's bytes, including the first and the last. Rejects when there is no such file. */
  read(key: string, range: ByteRange): Promise<Readable>
  /**
   * Removes a file, finished or not. Resolves when the removal would survive a power failure. Does nothing when there
   * is no such file, so it may be repeated.
   */
  remove(key: string): Promise<void>
}

export interface FileWriter {
  /** Takes more bytes, which the caller may reuse once this resolves. */
  write(bytes: Uint8Array): Promise<void>
  /** Resolves when the whole file can be read, even after a power failure. */
  finish(): Promise<void>
  /** Stops writing and frees the writer. `FileStore.remove` removes the bytes written so far. */
  abort(): Promise<void>
}
