/**
 * `node main.js <folder>` is the gateway. Its starter sends the task over an IPC channel, so that the process list does
 * not show it. It imports little, to stay small.
 */
import { nameSourceLines } from '../../platform/source-lines.ts'
import type { Assignment, Notice } from '../protocol/program.ts'
import { callErrorOf } from '../protocol/rpc.ts'
import { runGateway } from './gateway.ts'
import { createPeer } from './peer.ts'
import { runWorker, type Worker } from './workers.ts'

nameSourceLines()
if (process.send === undefined) {
  process.stderr.write('This program is started by the server of Fairlead.\n')
  process.exit(2)
}
// A closed terminal does not stop the gateway.
process.on('SIGHUP', () => {})
let worker: Worker | null = null
const peer = createPeer(process, {
  notice(notice, socket) {
    if (worker === null) void begin(notice)
    else worker.onNotice(notice, socket)
  },
})

async function begin(assignment: Assignment | Notice): Promise<void> {
  try {
    if (assignment.type === 'work') worker = runWorker(peer, assignment.options)
    else if (assignment.type === 'start' || assignment.type === 'succeed') await runGateway(peer, assignment)
  } catch (error) {
    peer.post({ type: 'failed', error: callErrorOf(error) })
    process.exitCode = 1
    setTimeout(() => process.exit(), 100)
  }
}
