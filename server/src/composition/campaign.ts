import { hostname } from 'node:os'
import { unlessAborted } from '../platform/abort.ts'
import { createEpochFence } from '../platform/leadership/epoch.ts'
import { type Leadership, startCampaign } from '../platform/leadership/leadership.ts'
import { registerServer, type ServerIdentity } from '../platform/leadership/servers.ts'
import { migrations } from '../platform/migrations/index.ts'
import { newestMigration } from '../platform/migrations/schema.ts'
import type { StopScope } from '../platform/shutdown.ts'
import { directoryId } from '../platform/startup/directory-id.ts'
import { ownVersion } from '../platform/versions/versions.ts'
import type { Composition, ServerOptions, SharedParts } from './composition.ts'
import { type Leading, startLeading } from './lead.ts'

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
  /** Gives up the leadership permanently; apps go on. */
  resign(): Promise<void>
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
  { state, logger, stack, onFatal }: Pick<Composition, 'state' | 'logger' | 'stack'> & Pick<ServerOptions, 'onFatal'>,
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
  composition: Composition,
  shared: SharedParts,
  given: {
    readonly server: ServerIdentity
    readonly scope: () => StopScope
    /** Called when this server begins and ends to lead. */
    readonly onLeading: (leading: boolean) => void
  },
): Promise<Member> {
  const { logger, state, stack } = composition
  let leading: Leading | undefined
  let beginning = false
  const epochDirectory = state.directory.leaderEpoch
  const lead = async ({ epoch, clockBackMs, state: { db, pool }, signal }: Leadership) => {
    const { check: fence } = createEpochFence({ directory: epochDirectory, epoch })
    beginning = true
    const begun = await startLeading(
      { ...composition, state: { ...state, db, pool } },
      { ...shared, epoch, clockBackMs, fence },
      signal,
    ).finally(() => {
      beginning = false
    })
    leading = begun
    given.onLeading(true)
    return {
      async stop() {
        leading = undefined
        given.onLeading(false)
        // The next leader adopts running apps, unless everything is stopped.
        await begun.stop(signal.aborted ? 'server' : given.scope())
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
