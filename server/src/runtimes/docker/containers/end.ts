import { endedOrAborted } from '../../../platform/abort.ts'
import type { StopOptions } from '../../runtime.ts'
import type { Containers } from '../calls/containers.ts'
import { EngineError } from '../engine/error.ts'

/** How long a container may survive SIGKILL. */
const killDeadlineMs = 30_000

/**
 * Ends a container: by the signal that its image names, SIGTERM by default, and by SIGKILL after the grace. Everything in it
 * ends with it. It is not removed.
 */
export async function endContainer(
  containers: Pick<Containers, 'inspect' | 'signal' | 'ended'>,
  id: string,
  { graceMs, signal }: StopOptions,
): Promise<void> {
  const container = await containers.inspect(id)
  const isGivenUp = () => signal?.aborted === true
  if (container === null || !container.State.Running || isGivenUp()) return
  const over = new AbortController()
  try {
    const ended = containers.ended(id, over.signal)
    ended.catch(() => undefined)
    if (graceMs > 0) {
      const isAsked = await askToEnd(containers, id, container.Config.StopSignal)
      const limits = [AbortSignal.timeout(graceMs), ...(signal === undefined ? [] : [signal])]
      if (isAsked) await endedOrAborted(ended, AbortSignal.any(limits))
      if (isGivenUp()) return
    }
    await containers.signal(id, 'SIGKILL')
    const deadline = AbortSignal.timeout(killDeadlineMs)
    await endedOrAborted(ended, deadline)
    if (deadline.aborted) throw new Error(`the container ${id} survives SIGKILL`)
  } finally {
    over.abort()
  }
}

/**
 * Sends the signal that an image names. Nobody has checked that there is such a one: the engine finds out only now, and then
 * refuses every signal but SIGKILL. Resolves with false when it does.
 */
async function askToEnd(containers: Pick<Containers, 'signal'>, id: string, named = 'SIGTERM'): Promise<boolean> {
  try {
    await containers.signal(id, named)
    return true
  } catch (error) {
    if (!(error instanceof EngineError) || error.status === null) throw error
    return false
  }
}
