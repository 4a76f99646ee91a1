import type { PoolConfig } from 'pg'
import type { Database } from '../database.ts'
import type { ShutdownStack } from '../shutdown.ts'

/** The parts that the work of the leader uses instead of the parts for requests. */
export interface LeaderParts {
  /** Refuses writes as soon as another server leads. */
  readonly database: Database
  /** The settings for connections outside the pool, such as a connection that listens for notifications. */
  readonly connection: PoolConfig
  /** The stack that ends the work when this server stops or another server leads. */
  readonly stack: ShutdownStack
}
