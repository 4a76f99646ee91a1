import { setTimeout as delay } from 'node:timers/promises'
import { examineCluster } from './initialise.ts'
import { findHolder } from './lock-file.ts'
import { stopPostmaster } from './postmaster.ts'
import { joinCluster, type Session } from './session.ts'
import { type ClusterContext, retryMs, tryStart } from './start.ts'

/**
 * Joins the cluster, in any state: creates it, starts it, adopts the postmaster that another process started or left
 * behind, or waits while a postmaster starts or stops. Every round examines the folder again, so any number of
 * processes may do this while others leave. Rejects with an error that names the obstacle after `deadlineMs`.
 */
export async function attach(context: ClusterContext, signal: AbortSignal, deadlineMs: number): Promise<Session> {
  const { directory, binaries, user } = context
  const deadline = performance.now() + deadlineMs
  const limited = AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)])
  let obstacle = 'it does not answer'
  let started = false
  try {
    // Applies to a running cluster too: it must not be used with another version.
    await examineCluster({ directory, version: binaries.version, user })
    while (performance.now() < deadline) {
      signal.throwIfAborted()
      let waitMs = retryMs
      const holder = await findHolder(directory)
      if (holder.state !== 'running') {
        const attempt = await tryStart(context, signal, deadline)
        started ||= attempt.state === 'started'
        if (attempt.state !== 'blocked') continue
        obstacle = attempt.obstacle
        waitMs = attempt.retryMs
      } else if (holder.status !== 'ready') {
        obstacle = `its process ${holder.pid} is ${holder.status || 'starting'}`
      } else {
        const session = await joinCluster(holder, directory, context.access.database, limited)
        if (session !== null) return session
        obstacle = `its process ${holder.pid} takes no connections in ${holder.socketDirectory}`
      }
      await delay(waitMs, undefined, { signal: limited })
    }
    limited.throwIfAborted()
    throw new DOMException('The deadline is over', 'TimeoutError')
  } catch (error) {
    // Stops the postmaster, which was started only for this process. The caller gets the first error.
    if (started) await leave(context, null).catch((err) => context.logger.warn({ err }, 'PostgreSQL keeps running'))
    signal.throwIfAborted()
    if (!(error instanceof Error && ['AbortError', 'TimeoutError'].includes(error.name))) throw error
    throw new Error(`PostgreSQL on ${directory} is not ready after ${deadlineMs / 1000} s: ${obstacle}`)
  }
}

/**
 * Ends a membership, and stops the cluster when no other process uses it. When the session is lost or missing, this
 * process first joins a running cluster again, to find out.
 */
export async function leave(context: ClusterContext, held: Session | null): Promise<void> {
  const session = held === null || held.isLost() ? await joinAgain(context) : held
  if (session === null) return
  try {
    if (!(await session.leave())) return
    const begin = performance.now()
    await stopPostmaster(session.pid, context.directory)
    context.logger.info({ pid: session.pid, ms: Math.round(performance.now() - begin) }, 'PostgreSQL stopped')
  } finally {
    await session.end()
  }
}

async function joinAgain({ directory, access }: ClusterContext): Promise<Session | null> {
  const holder = await findHolder(directory)
  if (holder.state !== 'running') return null
  return joinCluster(holder, directory, access.database, AbortSignal.timeout(5000))
}
