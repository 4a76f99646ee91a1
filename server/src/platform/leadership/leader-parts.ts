import type { PoolConfig } from 'pg'
import type { Database } from '../database.ts'
import type { ShutdownStack } from '../shutdown.ts'

/** Replace the parts for requests in the leader's work. */
export interface LeaderParts {
  /** Refuses writes as soon as another server leads. */
  readonly database: Database
  /** Outside the pool, such as to listen for notifications. */
  readonly connection: PoolConfig
  /** Ends when this server stops or another one leads. */
  readonly stack: ShutdownStack
}
