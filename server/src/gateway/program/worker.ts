import type { Socket } from 'node:net'
import type { Assignment, Notice, ProgramOptions } from '../control/program.ts'
import { createEngine } from '../engine/engine.ts'
import { createLog } from './log.ts'
import type { Peer } from './peer.ts'
import { engineOptions } from './settings.ts'

/** A process that answers requests beside the main process of a gateway, on connections that it accepts. */
export interface Worker {
  onNotice(notice: Notice | Assignment, socket?: Socket): void
}

/** Answers until the main process ends. */
export function runWorker(peer: Peer, options: ProgramOptions): Worker {
  const log = createLog((line) => peer.post({ type: 'log', line }))
  const engine = createEngine({
    ...engineOptions(options),
    log,
    onRefused: (refused) => peer.post({ type: 'refused', ...refused }),
  })
  peer.serve(engine.handlers)
  void peer.gone.then(() => process.exit())
  peer.post({ type: 'ready' })
  return {
    onNotice(notice, socket) {
      if (notice.type !== 'connection') return
      if (socket !== undefined) engine.take(notice.entrance, socket)
      peer.post({ type: 'taken connection', id: notice.id })
    },
  }
}
