import { sql } from 'kysely'
import { Client, type ClientConfig } from 'pg'
import { sleepUntilAborted } from '../abort.ts'
import type { Database, Transaction } from '../database.ts'
import type { Logger } from '../logger.ts'

/** Tells all listeners of a channel, once the transaction holds. The same payload twice in a transaction is told once. */
export async function notify(db: Database | Transaction, channel: string, payload: string): Promise<void> {
  await sql`select pg_notify(${channel}, ${payload})`.execute(db)
}

export interface ListenOptions {
  readonly connection: ClientConfig
  readonly logger: Logger
  /** What to do with a payload, by channel. */
  readonly channels: Readonly<Record<string, (payload: string) => void>>
  /** Called whenever listening begins, also after a connection that was lost: what was told before was not heard. */
  readonly onListening: () => void
}

export interface Listener {
  stop(): Promise<void>
}

const pauseMs = 500

/** Listens on a connection of its own (PostgreSQL's LISTEN), which is made again when it is lost. */
export function listen(options: ListenOptions): Listener {
  const stopping = new AbortController()
  const going = keepListening(options, stopping.signal)
  return {
    async stop() {
      stopping.abort()
      await going
    },
  }
}

async function keepListening(options: ListenOptions, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted) {
    try {
      await listenOnce(options, stopping)
    } catch (error) {
      options.logger.warn({ err: error }, 'notifications of the database cannot be heard')
    }
    if (!stopping.aborted) await sleepUntilAborted(pauseMs, stopping)
  }
}

/** Resolves when the connection has ended. */
async function listenOnce(options: ListenOptions, stopping: AbortSignal): Promise<void> {
  const client = new Client({ application_name: 'fairlead-listener', keepAlive: true, ...options.connection })
  const ended = new Promise<void>((done) => void client.once('end', () => done()))
  // Reported by the query that it breaks, or by the end.
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
