import type { DeploymentStatus } from '../../../contract/deployments.ts'
import type { RequestFacts } from '../../../http/call.ts'
import type { LogStream } from '../../../logs/log-store.ts'
import { sleepUntilAborted } from '../../../platform/abort.ts'
import type { LogReader, WantedSources } from './read.ts'

/** The client that follows a log. */
export type LogFollower = Pick<RequestFacts, 'signal' | 'mayGoOn'>

/** How often logs are read for new lines. */
export const pollMs = 250
/** How often the state of what is followed and the client's permission are checked. */
export const stateMs = 1_000
/** Something is sent at least this often, so that no proxy on the way takes the connection for dead. */
export const silenceMs = 15_000

/**
 * Yields server-sent events: a message for each line, and the event `end` with the status when no more will come. Ends
 * without it when the client is gone or may not read the log any more.
 */
export async function* followLog(
  reader: LogReader,
  statusNow: () => Promise<DeploymentStatus | 'deleted'>,
  wanted: WantedSources,
  { signal, mayGoOn }: LogFollower,
): AsyncGenerator<string, void> {
  yield ': the log begins\n\n'
  let spokenAt = performance.now()
  let statusDueAt = 0
  let permissionDueAt = performance.now() + stateMs
  while (!signal.aborted) {
    if (performance.now() >= permissionDueAt) {
      // A key that was revoked, or a user who signed out, reads no further.
      if (!(await mayGoOn())) return
      permissionDueAt = performance.now() + stateMs
    }
    // Read before the log: everything that was printed before this state is in the file by then.
    const asks = performance.now() >= statusDueAt
    const status = asks ? await statusNow() : 'building'
    const isLast = isOver(status, wanted.stream)
    const { events, isMore } = await reader.next(isLast)
    if (events !== '') {
      yield events
      spokenAt = performance.now()
    }
    if (isMore) continue
    if (isLast) {
      yield `event: end\ndata: ${JSON.stringify({ status })}\n\n`
      return
    }
    if (asks) statusDueAt = performance.now() + stateMs
    if (performance.now() - spokenAt > silenceMs) {
      yield ':\n\n'
      spokenAt = performance.now()
    }
    await sleepUntilAborted(pollMs, signal)
  }
}

function isOver(status: DeploymentStatus | 'deleted', stream: LogStream | undefined): boolean {
  if (status === 'building') return false
  return stream === 'build' || status !== 'running'
}
