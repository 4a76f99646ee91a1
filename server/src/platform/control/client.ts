import { once } from 'node:events'
import { readdir, rename, rm, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { basename, join } from 'node:path'
import { z } from 'zod'
import { readOptional } from '../files.ts'
import { request } from '../http.ts'
import { bootId, inspectProcess } from '../processes.ts'

const deadlineMs = 5_000

/** A live server of a data directory, behind its socket. */
export interface ServerControl {
  readonly record: ServerRecord
  isRunning(): Promise<boolean>
  /** Rejects when the server does not answer within five seconds. */
  status(): Promise<ServerStatus>
  /** Asks the server to stop; resolves when the stop has begun. */
  stop(what: 'all' | 'server'): Promise<void>
  /**
   * Sends any request. Rejects with a `ControlError` when the server refuses the request, and with another error when
   * the server does not answer before `signal` aborts.
   */
  send(method: 'GET' | 'POST', path: string, body: unknown, signal: AbortSignal): Promise<unknown>
}

/**
 * Lists the servers whose processes live, the oldest first, including servers that hang and do not answer. Removes the
 * files of dead servers.
 *
 * @param folder the folder `run` of the data directory
 */
export async function controlsOf(folder: string): Promise<readonly ServerControl[]> {
  return (await liveRecords(folder)).map(controlOf)
}

/** Returns the path of the leader's control socket; `undefined` while no server leads. */
export async function findLeader(folder: string): Promise<string | undefined> {
  for (const control of await controlsOf(folder)) {
    const status = await control.status().catch(() => undefined)
    if (status?.leading === true) return control.record.socket
  }
  return undefined
}

function controlOf(record: ServerRecord): ServerControl {
  const send: ServerControl['send'] = (method, path, body, signal) => sendTo(record.socket, method, path, body, signal)
  return {
    record,
    isRunning: () => livesAs(record),
    status: async () => serverStatus.parse(await send('GET', '/status', undefined, AbortSignal.timeout(deadlineMs))),
    async stop(what) {
      await send('POST', '/stop', { what }, AbortSignal.timeout(deadlineMs))
    },
    send,
  }
}

async function sendTo(
  socketPath: string,
  method: string,
  path: string,
  body: unknown,
  signal: AbortSignal,
): Promise<unknown> {
  const sent = request({ socketPath, method, path, signal, headers: { host: controlHost }, agent: false })
  // `once` reports an error before the response; a later error ends the response.
  sent.on('error', () => undefined)
  sent.end(body === undefined ? undefined : JSON.stringify(body))
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of response.setEncoding('utf8')) {
    text += chunk
    if (text.length > mostBytes) throw new Error('the answer of the server is too large')
  }
  const value = JSON.parse(text) as unknown
  if (response.statusCode === 200) return value
  const refused = z.object({ error: z.string() }).safeParse(value)
  throw new ControlError(response.statusCode ?? 0, refused.data?.error ?? 'the server refused the request')
}

const schema = z.object({
  id: z.string(),
  pid: z.int().positive(),
  /** The start time from `inspectProcess`. Together with the pid it identifies the process. */
  processStart: z.string(),
  /** The id of the boot from which `processStart` counts; null where the system has none. */
  boot: z.string().nullable(),
  version: z.string(),
  startedAt: z.iso.datetime(),
  socket: z.string(),
  isStopping: z.boolean(),
})

export type ServerRecord = Readonly<z.output<typeof schema>>

/** The files of one server: its record, the record while it is written, and the socket. */
const fileNames = /^(\d+-[0-9a-f]{8})\.(json|new|sock)$/

export function recordName({ id, pid }: Pick<ServerRecord, 'id' | 'pid'>): string {
  return `${pid}-${id.slice(0, 8)}`
}

/** Writes the record atomically, so that no reader finds half of it. */
export async function writeRecord(folder: string, record: ServerRecord): Promise<void> {
  const path = join(folder, recordName(record))
  await writeFile(`${path}.new`, JSON.stringify(record), { mode: 0o600 })
  await rename(`${path}.new`, `${path}.json`)
}

export async function removeRecord(folder: string, record: ServerRecord): Promise<void> {
  await rm(join(folder, `${recordName(record)}.json`), { force: true })
  await rm(record.socket, { force: true })
}

/**
 * True when exactly this process lives. After a power failure another process may have the same pid and the same start
 * time, because a system starts its services in the same way each time. A different boot id alone proves nothing:
 * systemd-nspawn shows a different id, except to services with a private `/proc`. So if the id differs, this checks
 * that the server accepts connections.
 */
async function livesAs({
  pid,
  processStart,
  boot,
  socket,
}: Pick<ServerRecord, 'pid' | 'processStart' | 'boot' | 'socket'>): Promise<boolean> {
  if ((await inspectProcess(pid))?.startedAt !== processStart) return false
  return boot === bootId() || accepts(socket)
}

/** True when a process listens on a Unix socket. */
async function accepts(path: string): Promise<boolean> {
  const connection = connect(path)
  try {
    await once(connection, 'connect')
    return true
  } catch {
    return false
  } finally {
    connection.destroy()
  }
}

/** Reads the records of live servers, the oldest first, and removes the files of dead servers. */
export async function liveRecords(folder: string): Promise<ServerRecord[]> {
  const live: ServerRecord[] = []
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException): string[] => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  for (const name of new Set(names.flatMap((file) => fileNames.exec(file)?.[1] ?? []))) {
    const record = parseRecord((await readOptional(join(folder, `${name}.json`))) ?? '', name)
    if (record !== null && (await livesAs(record))) live.push(record)
    else if (record !== null) await removeRecord(folder, record)
    else if ((await inspectProcess(Number.parseInt(name, 10))) === null) await removeFiles(folder, name)
  }
  return live.sort((a, b) => a.startedAt.localeCompare(b.startedAt))
}

async function removeFiles(folder: string, name: string): Promise<void> {
  for (const ending of ['json', 'new', 'sock']) await rm(join(folder, `${name}.${ending}`), { force: true })
}

/**
 * Returns `null` for a file without a record: its server is about to write the record, or was killed before. Also
 * returns `null` when the socket does not have the name of the record: a command may read a folder that came with a
 * repository, and would remove the file that the record names.
 */
function parseRecord(text: string, name: string): ServerRecord | null {
  try {
    const record = schema.parse(JSON.parse(text))
    return basename(record.socket) === `${name}.sock` ? record : null
  } catch {
    return null
  }
}

/** The `Host` of every request. A web page that somehow reaches the socket cannot send it. */
export const controlHost = 'fairlead.control'

export const mostBytes = 64 * 1024

const serverStatus = z.object({
  id: z.string(),
  version: z.string(),
  pid: z.int(),
  startedAt: z.string(),
  /** `null` until the server listens. */
  url: z.string().nullable(),
  state: z.enum(['starting', 'ready', 'stopping']),
  /** True for the server that does the background work. */
  leading: z.boolean(),
  dataDirectory: z.string(),
})

export type ServerStatus = Readonly<z.output<typeof serverStatus>>

export const stopBody = z.object({ what: z.enum(['all', 'server']) })

export class ControlError extends Error {
  override readonly name = 'ControlError'
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}
