import { chmodSync, lstatSync, renameSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import type { Server as NetServer } from 'node:net'
import { join } from 'node:path'
import { bootId, startTimeOf } from '../../platform/processes/stat.ts'
import type { GatewayHome } from '../control/program.ts'

/** How often the gateway looks whether its socket is still there. */
const WATCH_MS = 500

/** The socket and the record of this gateway. */
export interface Home {
  /** Listens beside the socket's path, where nobody looks. */
  listen(server: NetServer): Promise<void>
  /** Moves the socket to its path, over that of another gateway, and writes who this one is. */
  take(about: { readonly version: string; readonly startedAt: string }): void
  /** Calls `onLost` when the path has gone or names the socket of another gateway. */
  watch(onLost: () => void): void
  /** Removes what belongs to this gateway. */
  leave(): void
}

export function createHome({ folder, socket }: GatewayHome): Home {
  const own = `${socket}.${process.pid}`
  const state = join(folder, 'gateway.json')
  let taken: string | null = null
  let watching: NodeJS.Timeout | undefined

  return {
    async listen(server) {
      rmSync(own, { force: true })
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject)
        server.listen(own, () => {
          server.off('error', reject)
          resolve()
        })
      })
      // Besides the folder, which nobody else may enter.
      chmodSync(own, 0o600)
    },
    take({ version, startedAt }) {
      taken = identityOf(own)
      const { pid } = process
      const beside = `${state}.${pid}`
      writeFileSync(
        beside,
        `${JSON.stringify({ pid, startTime: startTimeOf(pid), boot: bootId(), startedAt, version })}\n`,
        {
          mode: 0o600,
        },
      )
      renameSync(own, socket)
      renameSync(beside, state)
    },
    watch(onLost) {
      watching = setInterval(() => {
        if (identityOf(socket) === taken) return
        clearInterval(watching)
        onLost()
      }, WATCH_MS)
    },
    leave() {
      clearInterval(watching)
      if (taken === null || identityOf(socket) !== taken) return
      unlinkSync(socket)
      rmSync(state, { force: true })
    },
  }
}

/** Returns what tells a file apart from another one at the same path; null when there is none. */
function identityOf(path: string): string | null {
  const info = lstatSync(path, { throwIfNoEntry: false })
  return info === undefined ? null : `${info.dev} ${info.ino}`
}
