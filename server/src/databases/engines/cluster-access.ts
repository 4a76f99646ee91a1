import type { ClusterAccess } from '../../platform/postgres/access.ts'
import type { LoginLimits } from '../../platform/postgres/unauthenticated.ts'
import type { Certificates } from './tls/certificates.ts'

/** The clusters listen only on loopback: these binaries bundle an old OpenSSL, which no network should reach. */
export const listenAddress = '127.0.0.1'

/**
 * Fairlead connects through the socket, in a folder that only Fairlead can enter. Over TCP a role reaches only the
 * database with the same name (`sameuser`) and the database of the role that it works as (`samerole`), even if it has
 * rights on other databases.
 */
export const hba = `local all               fairlead              trust
host  all               fairlead ${listenAddress}/32 reject
host  sameuser,samerole all      ${listenAddress}/32 scram-sha-256
`

/**
 * The connections for all sessions of users together. PostgreSQL leaves 1,675 connections to users. The rest is for
 * logins in progress, so that ten apps with all connections of their networks (`sessionsEach`) do not keep other users
 * out.
 */
export const sessionPlaces = 450

const settings = {
  // The administrator always gets in. The reserve is larger than needed, because PostgreSQL accepts twice as many
  // connections that have not logged in as `max_connections`, and each costs no more than a waiting process.
  max_connections: '2000',
  superuser_reserved_connections: '325',
  // Until this timeout, a client that does not authenticate takes a connection from everybody.
  authentication_timeout: '10s',
  shared_buffers: '128MB',
  // 50 × 2000 locks for all sessions together; `Engine.limitLocks` keeps one database from taking all of them.
  max_locks_per_transaction: '50',
  max_prepared_transactions: '0',
  password_encryption: 'scram-sha-256',
  wal_level: 'minimal',
  max_wal_senders: '0',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_checkpoints: 'off',
  // Users' statements and errors are private, so they are not logged.
  log_min_messages: 'fatal',
  log_min_error_statement: 'panic',
  // A refused login takes one line.
  log_error_verbosity: 'terse',
}

/** 1 GB of unread notifications; before version 17 it is 8 GB and cannot be set. */
const notifications = { max_notify_queue_pages: '131072' }

/**
 * Returns how many connections to a cluster may exist without a login. Connections that have named a user take the
 * places that sessions leave free. As long as they fit, the oldest is not ended, because on a busy machine it may be a
 * slow but genuine login.
 *
 * @param places the connections that users have; a cluster that outlived an update may have another number
 */
export function loginLimits(places: number): LoginLimits {
  const free = places - sessionPlaces
  return { silent: 1_600, authenticating: Math.floor(free / 2), authenticatingAtOnce: free - 75 }
}

/** The private memory of one session in bytes; shared memory does not count. */
const processMemory = 512 * 1024 * 1024

/**
 * Returns the configuration and the address of the cluster of a version.
 *
 * @param certificates for clients that ask for TLS; `null` for a cluster without TLS
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
