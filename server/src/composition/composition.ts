import type { Accounts } from '../accounts/index.ts'
import type { Apps } from '../apps/index.ts'
import type { PlanApart } from '../builds/planner.ts'
import type { Certificates } from '../certificates/index.ts'
import type { Databases } from '../databases/index.ts'
import type { Deployments } from '../deployments/index.ts'
import type { Domains } from '../domains/index.ts'
import type { Application } from '../http/application.ts'
import type { EdgeListener } from '../http/edge-listener.ts'
import type { LogStore } from '../logs/log-store.ts'
import type { Config } from '../platform/config.ts'
import type { Takeover } from '../platform/handover.ts'
import type { Logger } from '../platform/logger.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { SecretBox } from '../platform/secrets.ts'
import type { ShutdownStack, StopScope } from '../platform/shutdown.ts'
import type { State } from '../platform/state.ts'
import type { Projects } from '../projects/index.ts'
import type { RunConnections, Runs } from '../runs/index.ts'
import type { Runtime } from '../runtimes/runtime.ts'
import type { HostCapabilities } from '../runtimes/start.ts'
import type { Storage } from '../storage/index.ts'
import type { Webhooks } from '../webhooks/index.ts'

export interface ServerOptions {
  readonly config: Config
  readonly logger: Logger
  /** Returns the number of log lines lost so far. */
  readonly lostLogLines?: () => number
  /** Aborts a start in progress. */
  readonly signal?: AbortSignal
  /** Called when the server cannot go on and must be stopped. */
  readonly onFatal: (error: Error) => void
  /** Called when a command asks the server to stop; by default the server just stops. */
  readonly onStopRequest?: (scope: StopScope) => void
  /** Called when a command asks the server to hand over; resolves with the server that has taken over. */
  readonly onHandoverRequest?: () => Promise<unknown>
  /** The server that this server replaces. Its listening socket takes the place of an address to listen on. */
  readonly takeover?: Pick<Takeover, 'port' | 'listener'>
  /** True when answers with undeclared fields are errors; for tests. */
  readonly strictResponses?: boolean
  /** Runtimes besides the configured runtimes; for tests. */
  readonly moreRuntimes?: readonly Runtime[]
  /** Builds and runs new releases in place of the process runtime; for tests. */
  readonly preferredRuntime?: Runtime
  /** Replaces the detected capabilities of the host for builds, apps and git; for tests. */
  readonly host?: HostCapabilities
  /** Plans builds without planner processes; for tests. */
  readonly buildPlans?: PlanApart
}

/**
 * The parts that every composer needs. Requests and the leader's work each have a separate state and stack: the
 * leader's database refuses writes as soon as another server leads, and the leader's stack ends its work while requests
 * go on.
 */
export interface Composition
  extends Pick<ServerOptions, 'config' | 'logger' | 'moreRuntimes' | 'preferredRuntime' | 'host' | 'buildPlans'> {
  readonly state: Omit<State, 'close'>
  readonly secrets: SecretBox
  readonly stack: ShutdownStack
  /** Aborts when another server has replaced this server. Endless answers then end. */
  readonly retiring: AbortSignal
  /** The public address of the server, without a path. */
  readonly publicOrigin: string
}

export interface RequestComposition extends Composition, Pick<ServerOptions, 'strictResponses'> {
  /** The client connections to commands of apps. */
  readonly runConnections: RunConnections
  readonly application: Application
  /** `null` when no metrics token is configured. */
  readonly metrics: Metrics | null
}

/** The parts that requests and the leader's work share in a process. */
export interface SharedParts {
  readonly accounts: Accounts
  readonly projects: Projects
  readonly databases: Databases
  readonly storage: Storage
  readonly webhooks: Webhooks
  readonly logs: LogStore
  readonly apps: Apps
  readonly deployments: Deployments
  readonly runs: Runs
  readonly certificates: Certificates
  readonly domains: Domains
  /** The API behind the edge, and the reported state of the edge. */
  readonly edge: {
    readonly listener: EdgeListener
    /** Sets the problems of the edge for `/readyz`. */
    readonly setProblems: (problems: readonly string[]) => void
  }
}
