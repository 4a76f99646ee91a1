import { hostname } from 'node:os'
import { unlessAborted } from '../platform/abort.ts'
import { createEpochFence } from '../platform/leadership/epoch.ts'
import { type Leadership, startCampaign } from '../platform/leadership/leadership.ts'
import { registerServer, type ServerIdentity } from '../platform/leadership/servers.ts'
import { migrations } from '../platform/migrations/index.ts'
import { newestMigration } from '../platform/migrations/schema.ts'
import { directoryId } from '../platform/startup/directory-id.ts'
import type { StopScope } from '../platform/startup/shutdown.ts'
import { ownVersion } from '../platform/versions/versions.ts'
import type { Composition, ServerOptions, SharedParts } from './composition.ts'
import { type Leading, startLeading } from './lead.ts'

/** This server among those that work together on a database and a data directory. */
export interface Member {
  isLeader(): boolean
  /** True unless this server leads and takes no jobs. */
  isWorking(): boolean
  /** False from the moment in which this server begins to lead until the start of every app has been tried. */
  hasTriedAllApps(): boolean
  /** Returns in a sentence that the gateway does not answer; undefined while it does, and when another server leads. */
  gatewayProblem(): string | undefined
  /** Gives the leadership up for good, and contends no more; apps go on. */
  resign(): Promise<void>
}

/** The description of every server of this process. */
const description = {
  version: ownVersion,
  schema: newestMigration(migrations),
  host: hostname(),
  pid: process.pid,
}

/**
 * Registers this server as one of those that work on the database. Rejects when a live one has another data directory, so
 * that their work cannot be shared.
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
 * Contends for the leadership as long as the server runs. Resolves when this server leads and its apps are reconciled, or
 * when another one leads. Rejects when it could not lead at first.
 *
 * @param given.scope returns the extent of the stop that is under way; `server` while the server goes on
 */
export async function contend(
  composition: Composition,
  shared: SharedParts,
  given: {
    readonly server: ServerIdentity
    readonly scope: () => StopScope
    /** Called when this server begins to lead, and when it ends. */
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
        // The next leader adopts what runs, unless everything is stopped.
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
