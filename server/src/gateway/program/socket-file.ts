import { once } from 'node:events'
import { chmodSync, renameSync, rmSync, unlinkSync } from 'node:fs'
import type { Server } from 'node:net'
import { fileIdentity } from '../../platform/machine/file-identity.ts'

/** A Unix socket that a process listens on beside its path, where nobody looks, until it moves it there. */
export interface SocketFile {
  /** Listens by `listen` at a path beside. */
  listen(listen: (path: string) => Promise<void>): Promise<void>
  /** Moves the socket to its path, over that of another process. Does nothing when it is there already. */
  take(): void
  /** True when the path has gone, or names the socket of another process. */
  isLost(): boolean
  /** Removes the socket. Returns false when it never was at its path, or another process has taken that. */
  leave(): boolean
}

export function createSocketFile(path: string, beside: string): SocketFile {
  let taken: string | null = null
  return {
    async listen(listen) {
      rmSync(beside, { force: true })
      await listen(beside)
      // In addition to the rights of the folder, which nobody else may enter.
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

/** Makes a server listen at a path. Rejects when it cannot. */
export async function listenAt(server: Server, path: string): Promise<void> {
  server.listen(path)
  await once(server, 'listening')
}
