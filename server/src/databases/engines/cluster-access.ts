import type { ClusterAccess } from '../../platform/postgres/access.ts'
import type { LoginLimits } from '../../platform/postgres/unauthenticated.ts'
import type { Certificates } from './tls/certificates.ts'

/** The clusters listen on loopback alone: these binaries bundle an old OpenSSL, which no network should reach. */
export const listenAddress = '127.0.0.1'

/**
 * Fairlead connects through the socket, in a folder that only it can enter. Over TCP a role reaches the database of its own name
 * alone (`sameuser`), and that of the role that it works as (`samerole`), even when it was granted rights on other databases.
 */
export const hba = `local all               fairlead              trust
host  all               fairlead ${listenAddress}/32 reject
host  sameuser,samerole all      ${listenAddress}/32 scram-sha-256
`

/**
 * The connections that sessions of users have together. PostgreSQL leaves 1,675 to users: the others are for logins under way,
 * so that ten apps with all connections that their networks have (`sessionsEach`) keep nobody else out.
 */
export const sessionPlaces = 450

const settings = {
  // Administration always gets in. Its reserve is larger than it needs, because PostgreSQL accepts twice as many connections
  // that have not logged in as these are, and one of them costs no more than a process that waits.
  max_connections: '2000',
  superuser_reserved_connections: '325',
  // A client that does not authenticate takes one of everybody's connections until then.
  authentication_timeout: '10s',
  shared_buffers: '128MB',
  // 50 × 2000 locks for all sessions together; `Engine.limitLocks` keeps one database from taking them all.
  max_locks_per_transaction: '50',
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
  // Refused logins are one line each.
  log_error_verbosity: 'terse',
}

/** 1 GB of notifications that have not been read; before version 17 it is 8 GB, and no setting. */
const notifications = { max_notify_queue_pages: '131072' }

/**
 * Returns how many connections of a cluster may be there without having logged in. Those that have named a user take the places
 * that sessions leave free; as long as they fit, the oldest is not ended, which may be one on a busy machine.
 *
 * @param places the connections that users have; a cluster that outlived an update has those of the older version
 */
export function loginLimits(places: number): LoginLimits {
  const free = places - sessionPlaces
  return { silent: 1_600, authenticating: Math.floor(free / 2), authenticatingAtOnce: free - 75 }
}

/** Bytes of private memory for one session; shared memory does not count. */
const processMemory = 512 * 1024 * 1024

/**
 * Returns how the cluster of users' databases of a version is configured and reached.
 *
 * @param certificates for clients that ask for TLS; `null` for a cluster without it
 */
export function databaseClusterAccess(
  version: string,
  port: number,
  certificates: Pick<Certificates, 'certificateFile' | 'keyFile'> | null,
): ClusterAccess {
  const tls =
    certificates === null
      ? null
      : { ssl: 'on', ssl_cert_file: certificates.certificateFile, ssl_key_file: certificates.keyFile }
  return {
    database: 'postgres',
    port,
    listen: listenAddress,
    hba,
    settings: { ...settings, ...tls, ...(Number(version) >= 17 ? notifications : {}) },
    processMemory,
  }
}
