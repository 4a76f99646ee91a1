import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bootId, startTimeOf } from '../../platform/processes/stat.ts'
import { edgeSocketsOf, type GatewayHome } from '../control/program.ts'
import { createSocketFile, type SocketFile } from './socket-file.ts'

/** How often the gateway looks whether its sockets are still there. */
const WATCH_MS = 500

/** Listens at a path. */
export type ListenAt = (path: string) => Promise<void>

/** The sockets and the record of this gateway. */
export interface Home {
  /** Listens for calls, beside the path of that socket. */
  listen(control: ListenAt): Promise<void>
  /** Listens for an edge, beside the paths of its sockets. */
  listenForEdge(sockets: { readonly edge: ListenAt; readonly questions: ListenAt }): Promise<void>
  /** Moves all sockets to their paths, over those of another gateway, and writes who this one is. */
  take(about: { readonly version: string; readonly startedAt: string }): void
  /** Moves the sockets for an edge to their paths. */
  takeEdge(): void
  /** Calls `onLost` when a path has gone or names the socket of another gateway. */
  watch(onLost: () => void): void
  /** Removes what belongs to this gateway. */
  leave(): void
}

export function createHome(home: GatewayHome): Home {
  const { pid } = process
  const state = join(home.folder, 'gateway.json')
  const paths = edgeSocketsOf(home)
  const control = createSocketFile(home.socket, `${home.socket}.${pid}`)
  // No longer than the name beside the control socket, which the folder was chosen for.
  const beside = (path: string) => path.replace(/\.sock$/, `.${pid}`)
  const edge = createSocketFile(paths.edge, beside(paths.edge))
  const questions = createSocketFile(paths.questions, beside(paths.questions))
  const listening = new Set<SocketFile>()
  let listeningForEdge: Promise<void> | null = null
  let watching: NodeJS.Timeout | undefined

  const listenBeside = async (file: SocketFile, listen: ListenAt): Promise<void> => {
    if (listening.has(file)) return
    await file.listen(listen)
    listening.add(file)
  }
  const takeEdge = () => {
    for (const file of [questions, edge]) if (listening.has(file)) file.take()
  }

  return {
    listen: (listen) => listenBeside(control, listen),
    listenForEdge(sockets) {
      listeningForEdge ??= listenBeside(questions, sockets.questions)
        .then(() => listenBeside(edge, sockets.edge))
        .catch((error) => {
          listeningForEdge = null
          throw error
        })
      return listeningForEdge
    },
    take({ version, startedAt }) {
      const written = `${state}.${pid}`
      const record = { pid, startTime: startTimeOf(pid), boot: bootId(), startedAt, version }
      writeFileSync(written, `${JSON.stringify(record)}\n`, { mode: 0o600 })
      takeEdge()
      control.take()
      renameSync(written, state)
    },
    takeEdge,
    watch(onLost) {
      watching = setInterval(() => {
        if (![...listening].some((file) => file.isLost())) return
        clearInterval(watching)
        onLost()
      }, WATCH_MS)
    },
    leave() {
      clearInterval(watching)
      edge.leave()
      questions.leave()
      if (control.leave()) rmSync(state, { force: true })
    },
  }
}
