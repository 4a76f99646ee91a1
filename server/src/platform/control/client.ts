import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import { request } from '../machine/http.ts'
import { ControlError, controlHost, mostBytes, type ServerStatus, serverStatus } from './protocol.ts'
import { liveRecords, livesAs, type ServerRecord } from './records.ts'

const deadlineMs = 5_000

/** A living server of a data directory, which may be asked through its socket. */
export interface ServerControl {
  readonly record: ServerRecord
  /** True while its process lives. */
  isRunning(): Promise<boolean>
  /** Rejects when it does not answer within five seconds. */
  status(): Promise<ServerStatus>
  /** Asks it to stop; resolves when it has begun to. */
  stop(what: 'all' | 'server'): Promise<void>
  /**
   * Sends any request. Rejects with a `ControlError` when the server refuses it, and with another error when it does not
   * answer before `signal` aborts.
   */
  send(method: 'GET' | 'POST', path: string, body: unknown, signal: AbortSignal): Promise<unknown>
}

/**
 * Lists the servers whose processes live, the oldest first; one that hangs is among them and does not answer. Removes the
 * files of those that are gone.
 *
 * @param folder the folder `run` of the data directory
 */
export async function controlsOf(folder: string): Promise<readonly ServerControl[]> {
  return (await liveRecords(folder)).map(controlOf)
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
  // `once` reports an error up to the answer; a later one ends the answer itself.
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
