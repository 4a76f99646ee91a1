import type { ClusterAccess } from '../../platform/postgres/access.ts'

/** The clusters listen on loopback alone: these binaries bundle an old OpenSSL, which no network should reach. */
export const listenAddress = '127.0.0.1'

/**
 * Fairlead connects through the socket, in a folder that only it can enter. Over TCP every role reaches the database of
 * its own name alone (`sameuser`), even when it was granted rights on other databases.
 */
const hba = `local all      fairlead              trust
host  all      fairlead ${listenAddress}/32 reject
host  sameuser all      ${listenAddress}/32 scram-sha-256
`

const settings = {
  max_connections: '400',
  superuser_reserved_connections: '12',
  // A client that does not authenticate takes one of everybody's connections until then.
  authentication_timeout: '10s',
  shared_buffers: '128MB',
  // 256 × 400 locks for all sessions together; `Engine.limitLocks` keeps one database from taking them all.
  max_locks_per_transaction: '256',
  max_prepared_transactions: '0',
  password_encryption: 'scram-sha-256',
  wal_level: 'minimal',
  max_wal_senders: '0',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_checkpoints: 'off',
  // Users' statements and errors are private: they are not logged.
  log_min_messages: 'fatal',
  log_min_error_statement: 'panic',
}

/** Bytes of private memory for one session; shared memory does not count. */
const processMemory = 512 * 1024 * 1024

/** Returns how a cluster of users' databases is configured and reached. */
export function databaseClusterAccess(port: number): ClusterAccess {
  return { database: 'postgres', port, listen: listenAddress, hba, settings, processMemory }
}
