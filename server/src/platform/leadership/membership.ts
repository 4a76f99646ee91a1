import { hostname } from 'node:os'
import { unlessAborted } from '../abort.ts'
import { directoryId } from '../data-directory.ts'
import type { Logger } from '../logger.ts'
import { migrations } from '../migrations/index.ts'
import { newestMigration } from '../migrations/schema.ts'
import { ownVersion } from '../package-files.ts'
import type { ShutdownStack, StopScope } from '../shutdown.ts'
import type { State } from '../state.ts'
import { createEpochFence } from './epoch.ts'
import { type Leadership, startCampaign } from './leadership.ts'
import { registerServer, type ServerIdentity } from './servers.ts'

export interface Leading {
  isWorking(): boolean
  /** True once the start of every app that should run has been tried. */
  hasTriedAllApps(): boolean
  /** Returns a sentence while the gateway does not answer; undefined while it answers. */
  gatewayProblem(): string | undefined
  /** Stops the work in reverse order; with `all`, also stops apps. The work can start again in the same process. */
  stop(scope: StopScope): Promise<void>
}

export interface FencedLeadership extends Leadership {
  /** Throws when another server leads. */
  readonly fence: () => void
}

/** This server among the servers that share a database and a data directory. */
export interface Member {
  isLeader(): boolean
  /** False only while this server leads but takes no jobs. */
  isWorking(): boolean
  /** False from the beginning of leadership until the start of every app has been tried. */
  hasTriedAllApps(): boolean
  /**
   * Returns a sentence while the gateway does not answer; undefined while it answers, and when another server leads.
   */
  gatewayProblem(): string | undefined
  resign(): Promise<void>
}

interface MembershipParts {
  readonly state: Pick<State, 'db' | 'connection' | 'directory'>
  readonly logger: Logger
  readonly stack: ShutdownStack
}

const description = {
  version: ownVersion,
  schema: newestMigration(migrations),
  host: hostname(),
  pid: process.pid,
}

/**
 * Registers this server for the database. Rejects when a live server of the database has another data directory,
 * because they could not share the work.
 */
export async function register(
  {
    state,
    logger,
    stack,
    onFatal,
  }: MembershipParts & {
    /** Called when the server cannot go on and must be stopped. */
    readonly onFatal: (error: Error) => void
  },
  { id, url }: { readonly id: string; readonly url: string },
): Promise<ServerIdentity> {
  const server = { ...description, id, address: url, dataDirectory: await directoryId(state.directory.root) }
  const { signal } = stack
  const registration = await registerServer({ db: state.db, server, logger, signal, onConflict: onFatal })
  stack.defer('registration', () => registration.stop())
  return server
}

/**
 * Contends for the leadership as long as the server runs. Resolves when this server leads and its apps are reconciled,
 * or when another server leads. Rejects when the first attempt to lead fails.
 *
 * @param given.scope returns the scope of the current stop; `server` while the server goes on
 */
export async function contend(
  given: MembershipParts & {
    readonly server: ServerIdentity
    readonly scope: () => StopScope
    readonly onLeading: (leading: boolean) => void
    readonly lead: (leadership: FencedLeadership) => Promise<Leading>
  },
): Promise<Member> {
  const { logger, state, stack } = given
  let leading: Leading | undefined
  let beginning = false
  const epochDirectory = state.directory.leaderEpoch
  const lead = async (leadership: Leadership) => {
    const { check: fence } = createEpochFence({ directory: epochDirectory, epoch: leadership.epoch })
    beginning = true
    const begun = await given.lead({ ...leadership, fence }).finally(() => {
      beginning = false
    })
    leading = begun
    given.onLeading(true)
    return {
      async stop() {
        leading = undefined
        given.onLeading(false)
        // The next leader adopts running apps, unless everything is stopped.
        await begun.stop(leadership.signal.aborted ? 'server' : given.scope())
      },
    }
  }
  const { server } = given
  const campaign = startCampaign({ connection: state.connection, logger, server, epochDirectory, lead })
  stack.defer('leading', () => campaign.stop())
  await unlessAborted(campaign.ready, stack.signal)
  return {
    isLeader: campaign.isLeader,
    isWorking: () => leading?.isWorking() ?? true,
    hasTriedAllApps: () => leading?.hasTriedAllApps() ?? !beginning,
    gatewayProblem: () => leading?.gatewayProblem(),
    resign: campaign.stop,
  }
}
