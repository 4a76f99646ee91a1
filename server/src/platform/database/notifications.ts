import { sql } from 'kysely'
import { Client, type ClientConfig } from 'pg'
import { sleepUntilAborted } from '../abort.ts'
import type { Database, Transaction } from '../database.ts'
import type { Logger } from '../logger.ts'

/**
 * Notifies all listeners of a channel after the transaction has committed. PostgreSQL delivers equal payloads of a
 * transaction only once.
 */
export async function notify(db: Database | Transaction, channel: string, payload: string): Promise<void> {
  await sql`select pg_notify(${channel}, ${payload})`.execute(db)
}

export interface ListenOptions {
  readonly connection: ClientConfig
  readonly logger: Logger
  readonly channels: Readonly<Record<string, (payload: string) => void>>
  /** Called whenever listening begins. Notifications are lost between the end of a connection and the next call. */
  readonly onListening: () => void
}

export interface Listener {
  stop(): Promise<void>
}

const reconnectMs = 500

/** Listens (PostgreSQL's LISTEN) on a dedicated connection, and reconnects when the connection is lost. */
export function listen(options: ListenOptions): Listener {
  const stopping = new AbortController()
  const listening = keepListening(options, stopping.signal)
  return {
    async stop() {
      stopping.abort()
      await listening
    },
  }
}

async function keepListening(options: ListenOptions, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted) {
    try {
      await listenOnce(options, stopping)
    } catch (error) {
      options.logger.warn({ err: error }, 'cannot listen for notifications of the database; connecting again')
    }
    if (!stopping.aborted) await sleepUntilAborted(reconnectMs, stopping)
  }
}

async function listenOnce(options: ListenOptions, stopping: AbortSignal): Promise<void> {
  const client = new Client({ application_name: 'fairlead-listener', keepAlive: true, ...options.connection })
  const ended = new Promise<void>((done) => void client.once('end', () => done()))
  // Without a listener an error would end the process. The failing query or the `end` event reports it.
  client.on('error', () => undefined)
  const end = () => void client.end().catch(() => undefined)
  try {
    await client.connect()
    client.on('notification', ({ channel, payload = '' }) => options.channels[channel]?.(payload))
    for (const channel of Object.keys(options.channels))
      await client.query(`listen ${client.escapeIdentifier(channel)}`)
    options.onListening()
    stopping.addEventListener('abort', end)
    if (!stopping.aborted) await ended
  } finally {
    stopping.removeEventListener('abort', end)
    await client.end().catch(() => undefined)
  }
}
