import type { ConnectRun } from '../../http/application.ts'
import type { HandlersOf } from '../../http/call.ts'
import { controlsOf } from '../../platform/control/client.ts'
import { createConnectRun, createRunConnections, type RunConnections } from '../../runs/connections.ts'
import { runHandlers } from '../../runs/runs.ts'
import { type ScheduleHandlerDependencies, scheduleHandlers } from '../../runs/schedules.ts'
import type { Composition } from '../composition.ts'

/** Creates the client connections to commands of apps, which run on the leader. */
export function composeRunConnections({
  state,
  stack,
  retiring,
  logger,
}: Pick<Composition, 'stack' | 'retiring' | 'logger'> & {
  readonly state: { readonly directory: { readonly run: string } }
}): RunConnections {
  return createRunConnections({
    findLeader: () => findLeader(state.directory.run),
    stopping: AbortSignal.any([stack.signal, retiring]),
    logger,
  })
}

/** Returns the path of the leader's control socket. */
async function findLeader(folder: string): Promise<string | undefined> {
  for (const control of await controlsOf(folder)) {
    const status = await control.status().catch(() => undefined)
    if (status?.leading === true) return control.record.socket
  }
  return undefined
}

/** Creates the operations of runs, and the function that connects clients. */
export function composeRuns(
  { state }: Pick<Composition, 'state'>,
  given: Omit<ScheduleHandlerDependencies, 'database'> & { readonly connections: RunConnections },
): { readonly handlers: HandlersOf<'runs' | 'schedules'>; readonly connect: ConnectRun } {
  const database = state.db
  return {
    handlers: { ...runHandlers({ database, ...given }), ...scheduleHandlers({ database, ...given }) },
    connect: createConnectRun({ database, connections: given.connections }),
  }
}
