import type { ChildProcess } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { startProcess } from '../../platform/processes/spawn.ts'
import type { AppTraffic, CallError, OpenApp, Refusal, Settlement, ToEngine } from './calls.ts'
import type { EdgeOptions, EdgeState, Uncertified } from './edge-calls.ts'

export interface ProgramOptions {
  /** A running gateway of another version is replaced. */
  readonly version: string
  readonly host: string
  readonly apps: AppAddresses
  /** Addresses and networks (CIDR) whose X-Forwarded-* headers are trusted. */
  readonly trustedProxies: readonly string[]
  /** The user that the gateway runs as, unless it is the server's user. */
  readonly uid?: number
  readonly workers: number
  /** Set when an edge ends TLS and reaches the gateway by Unix sockets. */
  readonly edge: EdgeOptions | null
}

/** All paths are absolute. */
export interface GatewayHome {
  /** The private folder with the log and `gateway.json`, which identifies the process. */
  readonly folder: string
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

/** A connection starts with `hello` or `status`. */
export type ToGateway = Hello | { readonly type: 'status' } | Replace | ToEngine

/** Ends the previous server's connection. Refused when `epoch` is older than the newest epoch seen. */
export interface Hello {
  readonly type: 'hello'
  readonly epoch: number
}

/** Starts another gateway, which takes over the listening sockets. The old gateway replies. */
export interface Replace {
  readonly type: 'replace'
  readonly id: number
  readonly command: readonly [string, ...string[]]
  readonly options: ProgramOptions
  /** The time for the old gateway to finish its requests and upgraded connections. */
  readonly retireMs: number
}

export interface Welcome {
  readonly type: 'welcome'
  readonly pid: number
  readonly startedAt: string
  readonly options: ProgramOptions
  readonly apps: readonly OpenApp[]
  readonly protocol: number
  readonly edge: EdgeState
}

/** Says that another server has taken the gateway. The gateway then closes the connection. */
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
  | { readonly type: 'ready' }
  | { readonly type: 'failed'; readonly error: CallError }
  /** The successor has all listening sockets and takes the control socket. */
  | { readonly type: 'take' }
  | { readonly type: 'taken' }
  /** The predecessor has finished. These are its last counts. */
  | { readonly type: 'left'; readonly traffic: readonly AppTraffic[] }
  /** A connection; its socket is sent along. */
  | { readonly type: 'connection'; readonly id: number; readonly entrance: Entrance }
  | { readonly type: 'taken connection'; readonly id: number }
  | { readonly type: 'log'; readonly line: string }

export type FromGateway = Settlement | Welcome | Dismissal | Refusal | Uncertified

/** Apps differ by their ports, or by host names behind one port. */
export type AppAddresses =
  | { readonly mode: 'ports' }
  | {
      readonly mode: 'hostnames'
      readonly port: number
      /** The visitors' scheme: `https` behind a proxy that ends TLS. */
      readonly scheme: 'http' | 'https'
    }

export const logOf = ({ folder }: GatewayHome): string => join(folder, 'gateway.log')

/** Starts a gateway that outlives this process. Its output goes to its log; its environment is empty. */
export function spawnGateway([program, ...args]: readonly [string, ...string[]], home: GatewayHome): ChildProcess {
  // A user with fewer rights may own the folder, and could put a link there.
  const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW } = constants
  const log = openSync(logOf(home), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600)
  try {
    return startProcess(program, args, { cwd: '/', env: {}, detached: true, stdio: ['ignore', log, log, 'ipc'] })
  } finally {
    closeSync(log)
  }
}
