import type { Readable } from 'node:stream'
import type { ByteRange } from '../platform/conditional-requests.ts'

/**
 * Keeps the bytes of files under keys that the caller chooses (file ids). A store knows nothing of the database: which
 * files should exist is decided by the rows in `files` and `pending_files`.
 */
export interface FileStore {
  /** Begins a file. Nothing can be read under the key until the writer has finished. */
  create(key: string): Promise<FileWriter>
  /** Returns these bytes of a file, the first and the last included. Rejects when there is no such file. */
  read(key: string, range: ByteRange): Promise<Readable>
  /**
   * Removes a file, finished or not. Resolves when it would stay removed after a loss of power. Does nothing when there
   * is no such file, so it may be repeated.
   */
  remove(key: string): Promise<void>
}

export interface FileWriter {
  /** Takes more bytes, which the caller may reuse once this resolves. */
  write(bytes: Uint8Array): Promise<void>
  /** Resolves when the file can be read in full, also after a loss of power. */
  finish(): Promise<void>
  /** Stops writing and frees the writer. `FileStore.remove` removes the bytes written so far. */
  abort(): Promise<void>
}
