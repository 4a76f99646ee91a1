import type { Client } from '@fairlead/server/client'
import { isTransient } from './answers.ts'
import { type Detail, requireDeployment } from './outcome.ts'

/** The runner kills a cancelled step after 7.5 s, so everything has to be done within this time, in milliseconds. */
const cancellationTimeout = 6_000
/**
 * The part of this time for a creation in progress, in milliseconds, so that the new deployment can still be cancelled.
 */
export const creationGrace = 3_000

/**
 * Cancels a deployment at the server within the time that a cancelled step has. Resolves to its state afterwards; a
 * deployment that had ended before keeps its state. Never rejects.
 */
export async function cancelRemote(
  client: Client,
  params: { readonly project_id: string; readonly id: string },
): Promise<{ readonly seen: Detail } | { readonly error: unknown }> {
  const signal = AbortSignal.timeout(cancellationTimeout - creationGrace)
  try {
    return { seen: requireDeployment(await client.deployments.cancel({ params, signal })) }
  } catch (error) {
    if (signal.aborted || isTransient(error)) return { error }
  }
  try {
    return { seen: requireDeployment(await client.deployments.get({ params, signal })) }
  } catch (error) {
    return { error }
  }
}

/** Returns a signal that aborts this long after the other one. */
export function delayed(signal: AbortSignal, milliseconds: number): Disposable & { readonly signal: AbortSignal } {
  const later = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const start = () => {
    timer = setTimeout(() => later.abort(signal.reason), milliseconds)
  }
  if (signal.aborted) start()
  else signal.addEventListener('abort', start, { once: true })
  return {
    signal: later.signal,
    [Symbol.dispose]() {
      signal.removeEventListener('abort', start)
      clearTimeout(timer)
    },
  }
}
