import type { PlanApart } from '../builds/planner.ts'
import type { Engine } from '../databases/engines/engine.ts'
import type { Application } from '../http/application.ts'
import type { EdgeListener } from '../http/edge-listener.ts'
import type { LogStore } from '../logs/log-store.ts'
import type { Config } from '../platform/config.ts'
import type { RequestTransactions } from '../platform/database/request-transactions.ts'
import type { Takeover } from '../platform/handover.ts'
import type { Logger } from '../platform/logger.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { SecretBox } from '../platform/secrets.ts'
import type { Slots } from '../platform/slots.ts'
import type { ShutdownStack, StopScope } from '../platform/startup/shutdown.ts'
import type { State } from '../platform/startup/state.ts'
import type { RunConnections } from '../runs/connections.ts'
import type { HostCapabilities } from '../runtimes/process/confinement/capabilities.ts'
import type { Runtime } from '../runtimes/runtime.ts'

export interface ServerOptions {
  readonly config: Config
  readonly logger: Logger
  /** Returns how many lines of the log were lost so far. */
  readonly lostLogLines?: () => number
  /** Aborts a start that is under way. */
  readonly signal?: AbortSignal
  /** Called when the server cannot go on by itself and must be stopped. */
  readonly onFatal: (error: Error) => void
  /** Called when a command asks the server to stop; by default the server stops by itself. */
  readonly onStopRequest?: (scope: StopScope) => void
  /** Called when a command asks the server to hand over; resolves with the server that has taken over. */
  readonly onHandoverRequest?: () => Promise<unknown>
  /** The server whose place this one takes; it hands over its listening socket instead of an address to listen on. */
  readonly takeover?: Pick<Takeover, 'port' | 'listener'>
  /** True when answers with undeclared fields are errors; for tests. */
  readonly strictResponses?: boolean
  /** Runtimes besides those of the configuration; for tests. */
  readonly moreRuntimes?: readonly Runtime[]
  /** Builds and runs new releases in place of the process runtime; for tests. */
  readonly preferredRuntime?: Runtime
  /** Confines builds, apps and git in place of all that this machine can do; for tests. */
  readonly host?: HostCapabilities
  /** Plans builds in place of processes; for tests. */
  readonly buildPlans?: PlanApart
}

/**
 * The parts that every composer works with. Requests and the work of the leader have a state and a stack each: the leader's
 * database refuses its writes as soon as another server leads, and its stack ends its work while requests go on.
 */
export interface Composition
  extends Pick<ServerOptions, 'config' | 'logger' | 'moreRuntimes' | 'preferredRuntime' | 'host' | 'buildPlans'> {
  readonly state: Omit<State, 'close'>
  readonly secrets: SecretBox
  readonly stack: ShutdownStack
  /** Aborts when another server has taken this one's place: answers without an end then end. */
  readonly retiring: AbortSignal
  /** The address at which others reach the server, without a path. */
  readonly publicOrigin: string
}

/** The parts that composers of requests work with. */
export interface RequestComposition
  extends Composition,
    Pick<ServerOptions, 'strictResponses'>,
    Pick<SharedParts, 'runConnections'> {
  readonly application: Application
  /** `null` without a token to read metrics. */
  readonly metrics: Metrics | null
}

/** The work that requests of a process do in turns of their accounts, so that none waits behind all that another one has sent. */
export interface RequestTurns {
  readonly transact: RequestTransactions
  /** The slots in which uploads end: they force bytes to the disk, or remove them. */
  readonly finishing: Slots<string>
}

/** The parts of a process that its requests and its work as the leader share. */
export interface SharedParts {
  readonly engine: Engine
  readonly logs: LogStore
  /** The connections of clients to commands of apps. */
  readonly runConnections: RunConnections
  /** The API as the edge reaches it, and what is told of the edge. */
  readonly edge: {
    readonly listener: EdgeListener
    /** Sets what does not work of the edge, for `/readyz`. */
    readonly setProblems: (problems: readonly string[]) => void
  }
}

/** The time that requests and jobs may take to end when the server stops, in milliseconds. */
export const finishTimeoutMs = 10_000

/** The time that uploads and downloads get instead when the server stops alone, and apps go on. */
export const finishTransfersMs = 300_000
