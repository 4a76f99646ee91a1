import type { ChildProcess } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { startProcess } from '../../platform/processes/spawn.ts'
import type { AppTraffic, CallError, OpenApp, Refusal, Settlement, ToEngine } from './calls.ts'
import type { EdgeOptions, EdgeState, Uncertified } from './edge-calls.ts'

/** The settings of a gateway. */
export interface ProgramOptions {
  /** Which program it is: a running gateway of another version is replaced. */
  readonly version: string
  /** The address that it listens on. */
  readonly host: string
  readonly apps: AppAddresses
  /** Addresses and networks (CIDR) whose X-Forwarded-* headers are believed. */
  readonly trustedProxies: readonly string[]
  /** The user that it runs as, where that is not the user of the server. */
  readonly uid?: number
  /** The number of processes that answer requests. */
  readonly workers: number
  /** Set when an edge ends TLS in front of the gateway and reaches it by Unix sockets. */
  readonly edge: EdgeOptions | null
}

/** The place at which a gateway is found. All paths are absolute. */
export interface GatewayHome {
  /** The private folder with its log and with `gateway.json`, which says who it is. */
  readonly folder: string
  /** The Unix socket on which it takes calls. */
  readonly socket: string
}

/** The Unix sockets on which a gateway is reached by an edge: for public traffic, and for questions about certificates. */
export interface EdgeSockets {
  readonly edge: string
  readonly questions: string
}

export function edgeSocketsOf({ socket }: GatewayHome): EdgeSockets {
  const folder = dirname(socket)
  return { edge: join(folder, 'edge.sock'), questions: join(folder, 'questions.sock') }
}

/** A message to a gateway on its socket. The first one of a connection is `hello` or `status`. */
export type ToGateway = Hello | { readonly type: 'status' } | Replace | ToEngine

/** Begins a connection, and ends the one before it. Refused when `epoch` is older than the newest that was seen. */
export interface Hello {
  readonly type: 'hello'
  readonly epoch: number
}

/** Starts another gateway that takes over the listening sockets. The reply comes from the old one. */
export interface Replace {
  readonly type: 'replace'
  readonly id: number
  /** The program and its arguments. */
  readonly command: readonly [string, ...string[]]
  readonly options: ProgramOptions
  /** How long the old gateway may finish its requests and upgraded connections. */
  readonly retireMs: number
}

/** The description that a gateway gives of itself. */
export interface Welcome {
  readonly type: 'welcome'
  readonly pid: number
  readonly startedAt: string
  readonly options: ProgramOptions
  readonly apps: readonly OpenApp[]
  /** The version of the calls that it answers; missing in gateways from before version 2. */
  readonly protocol?: number
  /** Missing in gateways from before version 3. */
  readonly edge?: EdgeState
}

/** The connection is closed after it: another server has taken the gateway. */
export interface Dismissal {
  readonly type: 'dismissed'
  readonly message: string
}

/** The listener that has accepted a connection: that of an app's own port, of the port that all apps share, or of the edge. */
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
  /** The predecessor is done: the last of its counts. */
  | { readonly type: 'left'; readonly traffic: readonly AppTraffic[] }
  /** A connection; its socket travels with it. */
  | { readonly type: 'connection'; readonly id: number; readonly entrance: Entrance }
  /** The connection of that id is answered by the worker that says so. */
  | { readonly type: 'taken connection'; readonly id: number }
  /** A line for the log. */
  | { readonly type: 'log'; readonly line: string }

/** A message from a gateway to a server. */
export type FromGateway = Settlement | Welcome | Dismissal | Refusal | Uncertified

/** Tells apps apart: each by a port of its own, or all behind one port by their host names. */
export type AppAddresses =
  | { readonly mode: 'ports' }
  | {
      readonly mode: 'hostnames'
      readonly port: number
      /** The scheme that the public uses: `https` behind a proxy that ends TLS. */
      readonly scheme: 'http' | 'https'
    }

export const logOf = ({ folder }: GatewayHome): string => join(folder, 'gateway.log')

/** Starts the process of a gateway that outlives this one. What it prints goes to its log; nothing is in its environment. */
export function spawnGateway([program, ...args]: readonly [string, ...string[]], home: GatewayHome): ChildProcess {
  // The folder may be that of a user with less rights, who could put a link there.
  const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW } = constants
  const log = openSync(logOf(home), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600)
  try {
    return startProcess(program, args, { cwd: '/', env: {}, detached: true, stdio: ['ignore', log, log, 'ipc'] })
  } finally {
    closeSync(log)
  }
}
