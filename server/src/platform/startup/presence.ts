import { ControlError, type ServerStatus, stopBody } from '../control/client.ts'
import { type Control, openControl } from '../control/listen.ts'
import type { Logger } from '../logger.ts'
import type { StopScope } from '../shutdown.ts'
import { ownVersion } from '../versions/versions.ts'
import type { DataDirectory } from './data-directory.ts'

type Progress = Pick<ServerStatus, 'url' | 'state' | 'leading'>

/** The entry of this server in its data directory: its record, and the socket by which commands reach it. */
export interface Presence extends Pick<Control, 'close'> {
  /** Changes the status that the server reports. */
  update(changes: Partial<Progress>): void
  /**
   * Returns the extent of a stop: `server` instead of `all` while another server of the data directory continues. When
   * several servers stop at once, the last server stops everything.
   */
  leave(asked: StopScope): Promise<StopScope>
}

/**
 * Makes this server known in its data directory.
 *
 * @param options.id the id that it is also registered with in the database
 * @param options.onStop called when a command asks the server to stop
 * @param options.onHandover called when a command asks the server to hand over; resolves when another server has taken
 * over
 */
export async function openPresence(options: {
  readonly id: string
  readonly directory: Pick<DataDirectory, 'root' | 'run'>
  readonly logger: Logger
  readonly onStop: (scope: StopScope) => void
  readonly onHandover?: (() => Promise<unknown>) | undefined
  readonly onUpgrade?: Parameters<typeof openControl>[0]['onUpgrade']
}): Promise<Presence> {
  const { id, directory, logger, onStop, onHandover } = options
  const identity = { id, version: ownVersion, startedAt: new Date().toISOString() }
  let progress: Progress = { url: null, state: 'starting', leading: false }
  const status = async (): Promise<ServerStatus> => ({
    ...identity,
    pid: process.pid,
    ...progress,
    dataDirectory: directory.root,
  })
  const stop = async (body: unknown) => {
    const parsed = stopBody.safeParse(body)
    if (!parsed.success) throw new ControlError(400, 'The body must be {"what":"all"} or {"what":"server"}.')
    onStop(parsed.data.what)
    return { stopping: parsed.data.what }
  }
  const handOver = async () => {
    if (onHandover === undefined) throw new ControlError(409, 'This server cannot hand over.')
    return onHandover().catch((error: unknown) => {
      throw new ControlError(409, error instanceof Error ? error.message : String(error))
    })
  }
  const control = await openControl({
    folder: directory.run,
    identity,
    handlers: { 'GET /status': status, 'POST /stop': stop, 'POST /handover': handOver },
    onUpgrade: options.onUpgrade,
    logger,
  })
  return {
    update(changes) {
      progress = { ...progress, ...changes }
    },
    async leave(asked) {
      progress = { ...progress, state: 'stopping' }
      const isLast = await control.leave()
      if (asked === 'all' && !isLast) logger.info('another server works in this data directory: apps keep running')
      return isLast ? asked : 'server'
    },
    close: control.close,
  }
}
