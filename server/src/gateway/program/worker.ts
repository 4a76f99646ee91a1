import type { ProgramOptions } from '../control/program.ts'
import { createEngine } from '../engine/engine.ts'
import { createLog } from './log.ts'
import type { Peer } from './peer.ts'
import { engineOptions } from './settings.ts'

/** Answers requests beside the main process of a gateway, on its listening sockets, and ends with it. */
export function runWorker(peer: Peer, options: ProgramOptions): void {
  const log = createLog((line) => peer.post({ type: 'log', line }))
  const engine = createEngine({
    ...engineOptions(options),
    log,
    onRefused: (refused) => peer.post({ type: 'refused', ...refused }),
  })
  peer.serve(engine.handlers)
  void peer.gone.then(() => process.exit())
  peer.post({ type: 'ready' })
}
