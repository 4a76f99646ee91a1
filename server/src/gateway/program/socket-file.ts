import { once } from 'node:events'
import { chmodSync, renameSync, rmSync, unlinkSync } from 'node:fs'
import type { Server } from 'node:net'
import { fileIdentity } from '../../platform/files.ts'

/** A Unix socket that listens at a temporary path until it is moved to its final path. */
export interface SocketFile {
  /** Calls `listen` with the temporary path. */
  listen(listen: (path: string) => Promise<void>): Promise<void>
  /** Moves the socket to its final path, where it replaces another process's socket. Does nothing the second time. */
  take(): void
  /** True when the final path is gone, or names the socket of another process. */
  isLost(): boolean
  /** Removes the socket. Returns false when it never was at its final path, or another process has taken the path. */
  leave(): boolean
}

export function createSocketFile(path: string, beside: string): SocketFile {
  let taken: string | null = null
  return {
    async listen(listen) {
      rmSync(beside, { force: true })
      await listen(beside)
      // In addition to the private folder.
      chmodSync(beside, 0o600)
    },
    take() {
      if (taken !== null) return
      const identity = fileIdentity(beside)
      renameSync(beside, path)
      taken = identity
    },
    isLost: () => taken !== null && fileIdentity(path) !== taken,
    leave() {
      if (taken === null || fileIdentity(path) !== taken) return false
      unlinkSync(path)
      return true
    },
  }
}

/** Starts to listen at a path. Rejects when that fails. */
export async function listenAt(server: Server, path: string): Promise<void> {
  server.listen(path)
  await once(server, 'listening')
}
