import type { ChildProcess } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { startProcess } from '../../platform/processes/spawn.ts'
import type { AppTraffic, CallError, OpenApp, Refusal, Settlement, ToEngine } from './calls.ts'
import type { EdgeOptions, EdgeState, Uncertified } from './edge-calls.ts'

/** The settings of a gateway. */
export interface ProgramOptions {
  /** The version of the gateway program. A running gateway of another version is replaced. */
  readonly version: string
  readonly host: string
  readonly apps: AppAddresses
  /** Addresses and networks (CIDR) whose X-Forwarded-* headers are trusted. */
  readonly trustedProxies: readonly string[]
  /** The user that the gateway runs as, unless it is the server's user. */
  readonly uid?: number
  /** The number of processes that answer requests. */
  readonly workers: number
  /** Set when an edge ends TLS in front of the gateway and reaches it by Unix sockets. */
  readonly edge: EdgeOptions | null
}

/** The paths of a gateway, all absolute. */
export interface GatewayHome {
  /** The private folder with its log and `gateway.json`, which identifies its process. */
  readonly folder: string
  /** The Unix socket for calls. */
  readonly socket: string
}

/** The Unix sockets for an edge: one for public traffic, one for questions about certificates. */
export interface EdgeSockets {
  readonly edge: string
  readonly questions: string
}

export function edgeSocketsOf({ socket }: GatewayHome): EdgeSockets {
  const folder = dirname(socket)
  return { edge: join(folder, 'edge.sock'), questions: join(folder, 'questions.sock') }
}

/** A message to a gateway on its socket. A connection starts with `hello` or `status`. */
export type ToGateway = Hello | { readonly type: 'status' } | Replace | ToEngine

/** Starts a connection and ends the previous one. Refused when `epoch` is older than the newest epoch seen. */
export interface Hello {
  readonly type: 'hello'
  readonly epoch: number
}

/** Starts another gateway that takes over the listening sockets. The old gateway sends the reply. */
export interface Replace {
  readonly type: 'replace'
  readonly id: number
  /** The program and its arguments. */
  readonly command: readonly [string, ...string[]]
  readonly options: ProgramOptions
  /** How long the old gateway may take to finish its requests and upgraded connections. */
  readonly retireMs: number
}

/** A gateway's description of itself. */
export interface Welcome {
  readonly type: 'welcome'
  readonly pid: number
  readonly startedAt: string
  readonly options: ProgramOptions
  readonly apps: readonly OpenApp[]
  /** The `protocolVersion` of its calls. */
  readonly protocol: number
  readonly edge: EdgeState
}

/** The gateway closes the connection after this message, because another server has taken the gateway. */
export interface Dismissal {
  readonly type: 'dismissed'
  readonly message: string
}

/** The listener that accepted a connection: the app's own port, the shared port, or the edge. */
export type Entrance = { readonly appId: string } | 'shared' | 'edge'

/** The first message to a new process of a gateway, over its IPC channel. */
export type Assignment =
  | { readonly type: 'start'; readonly home: GatewayHome; readonly options: ProgramOptions }
  | { readonly type: 'work'; readonly options: ProgramOptions }
  | {
      readonly type: 'succeed'
      readonly home: GatewayHome
      readonly options: ProgramOptions
      /** The newest epoch that the predecessor has seen. */
      readonly epoch: number
    }

/** Messages over the IPC channel that belong to no call. */
export type Notice =
  /** The new process is ready for calls. */
  | { readonly type: 'ready' }
  | { readonly type: 'failed'; readonly error: CallError }
  /** The successor has all listening sockets and takes the control socket. */
  | { readonly type: 'take' }
  | { readonly type: 'taken' }
  /** The predecessor has finished; these are its last counts. */
  | { readonly type: 'left'; readonly traffic: readonly AppTraffic[] }
  /** A connection; its socket is sent along. */
  | { readonly type: 'connection'; readonly id: number; readonly entrance: Entrance }
  /** The worker has taken the connection with this id. */
  | { readonly type: 'taken connection'; readonly id: number }
  /** A line for the log. */
  | { readonly type: 'log'; readonly line: string }

/** A message from a gateway to a server. */
export type FromGateway = Settlement | Welcome | Dismissal | Refusal | Uncertified

/** The way to tell apps apart: by a separate port for each app, or by host names behind one port. */
export type AppAddresses =
  | { readonly mode: 'ports' }
  | {
      readonly mode: 'hostnames'
      readonly port: number
      /** The scheme that visitors use: `https` behind a proxy that ends TLS. */
      readonly scheme: 'http' | 'https'
    }

export const logOf = ({ folder }: GatewayHome): string => join(folder, 'gateway.log')

/** Starts a gateway process that outlives this one. Its output goes to its log, and its environment is empty. */
export function spawnGateway([program, ...args]: readonly [string, ...string[]], home: GatewayHome): ChildProcess {
  // The folder may belong to a user with fewer rights, who could place a link there.
  const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW } = constants
  const log = openSync(logOf(home), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600)
  try {
    return startProcess(program, args, { cwd: '/', env: {}, detached: true, stdio: ['ignore', log, log, 'ipc'] })
  } finally {
    closeSync(log)
  }
}
