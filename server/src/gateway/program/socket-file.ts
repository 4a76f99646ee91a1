import { once } from 'node:events'
import { chmodSync, renameSync, rmSync, unlinkSync } from 'node:fs'
import type { Server } from 'node:net'
import { fileIdentity } from '../../platform/files.ts'

/** A Unix socket that listens at a temporary path until it moves to its final path. */
export interface SocketFile {
  listen(listen: (path: string) => Promise<void>): Promise<void>
  /** Replaces another process's socket. Does nothing the second time. */
  take(): void
  /** True when the final path is gone, or is another process's socket. */
  isLost(): boolean
  /** Returns false when the final path never was ours, or is no longer. */
  leave(): boolean
}

export function createSocketFile(path: string, beside: string): SocketFile {
  let taken: string | null = null
  return {
    async listen(listen) {
      rmSync(beside, { force: true })
      await listen(beside)
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

export async function listenAt(server: Server, path: string): Promise<void> {
  server.listen(path)
  await once(server, 'listening')
}
