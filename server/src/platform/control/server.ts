import { once } from 'node:events'
import { chmod } from 'node:fs/promises'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import type { DataDirectory } from '../data-directory.ts'
import { createServer } from '../http.ts'
import type { Logger } from '../logger.ts'
import { ownVersion } from '../package-files.ts'
import { bootId, inspectProcess } from '../processes.ts'
import type { StopScope } from '../shutdown.ts'
import { chooseSocketFolder, makePrivateDirectory } from '../socket-folder.ts'
import {
  ControlError,
  controlHost,
  liveRecords,
  mostBytes,
  recordName,
  removeRecord,
  type ServerRecord,
  type ServerStatus,
  stopBody,
  writeRecord,
} from './client.ts'

type Progress = Pick<ServerStatus, 'url' | 'state' | 'leading'>

/** This server in its data directory: its record, and the socket for commands. */
export interface Presence extends Pick<Control, 'close'> {
  update(changes: Partial<Progress>): void
  /**
   * Returns `server` instead of `all` while another server of the data directory continues. When several stop at once,
   * the last stops everything.
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

const requestDeadlineMs = 10_000

/** `body` is `undefined` when the request has none. The result becomes JSON. */
type ControlHandler = (body: unknown) => Promise<unknown>

export type ControlHandlers = Readonly<Record<string, ControlHandler>>

interface Control {
  /**
   * Tells the data directory's other servers that this one is stopping. True when all are, so that this one must stop
   * what they share.
   */
  leave(): Promise<boolean>
  /** Closes the socket, and removes it and the record. */
  close(): Promise<void>
}

/**
 * Records this server, and listens on a Unix socket in a private folder, whose mode decides who may connect.
 *
 * @param options.folder `run` of the data directory
 */
export async function openControl(options: {
  readonly folder: string
  readonly identity: Pick<ServerRecord, 'id' | 'version' | 'startedAt'>
  readonly handlers: ControlHandlers
  /** Takes connections that ask for another protocol. */
  readonly onUpgrade?: ((request: IncomingMessage, socket: Duplex, head: Buffer) => void) | undefined
  readonly logger: Pick<Logger, 'warn'>
}): Promise<Control> {
  const { folder, identity, handlers, onUpgrade, logger } = options
  await makePrivateDirectory(folder, null)
  // Killed servers have left their files.
  await liveRecords(folder)
  const own = await inspectProcess(process.pid)
  if (own === null) throw new Error('This process cannot be inspected; is /proc mounted?')
  const name = recordName({ ...identity, pid: process.pid })
  const directory = chooseSocketFolder({ folder, name: `${name}.sock`, owner: folder })
  if (directory !== folder) await makePrivateDirectory(directory, null)
  const socket = join(directory, `${name}.sock`)
  const server = createServer((request, response) => {
    answer(handlers, request, response).catch((error: unknown) => {
      logger.warn({ err: error }, 'a request to the control socket failed')
      response.destroy()
    })
  })
  if (onUpgrade !== undefined) {
    server.on('upgrade', (request, socket, head) => {
      if (isForBrowsers(request)) socket.destroy()
      else onUpgrade(request, socket, head)
    })
  }
  server.requestTimeout = requestDeadlineMs
  server.listen(socket)
  await once(server, 'listening')
  server.on('error', (error) => logger.warn({ err: error }, 'a connection to the control socket failed'))
  await chmod(socket, 0o600)
  const record = {
    ...identity,
    pid: process.pid,
    processStart: own.startedAt,
    boot: bootId(),
    socket,
    isStopping: false,
  }
  await writeRecord(folder, record)
  return {
    async leave() {
      await writeRecord(folder, { ...record, isStopping: true }).catch((error: unknown) => {
        // A full disk must not keep the server from stopping.
        logger.warn({ err: error }, 'the record of this server could not be written')
      })
      return (await liveRecords(folder)).every(({ id, isStopping }) => isStopping || id === record.id)
    },
    async close() {
      await removeRecord(folder, record)
      await closeServer(server)
    },
  }
}

async function closeServer(server: Server): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  // The answer to a stop request may still be in transit.
  server.closeIdleConnections()
  const cut = setTimeout(() => server.closeAllConnections(), 1_000)
  await closed
  clearTimeout(cut)
}

async function answer(handlers: ControlHandlers, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { status, value } = await handle(handlers, request).then(
    (value) => ({ status: 200, value }),
    (error: unknown) => {
      const { status, message } = error instanceof ControlError ? error : new ControlError(500, messageOf(error))
      return { status, value: { error: message } }
    },
  )
  const text = JSON.stringify(value)
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' })
  response.end(text)
}

/** True for a request that a web page may have sent. */
const isForBrowsers = ({ headers }: IncomingMessage): boolean =>
  headers.origin !== undefined || headers.host !== controlHost

async function handle(handlers: ControlHandlers, request: IncomingMessage): Promise<unknown> {
  if (isForBrowsers(request)) throw new ControlError(403, 'This socket is not for browsers.')
  const route = `${request.method} ${request.url}`
  const handler = Object.hasOwn(handlers, route) ? handlers[route] : undefined
  if (handler === undefined) throw new ControlError(404, `This version of Fairlead has no ${route}.`)
  return handler(await readBody(request))
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) {
    text += chunk
    if (text.length > mostBytes) throw new ControlError(413, 'The request is too large.')
  }
  if (text === '') return undefined
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw new ControlError(400, 'The request is not JSON.')
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
