import type { Config } from '../platform/config.ts'
import { handOver, type Successor } from '../platform/handover/hand-over.ts'
import { successorOption } from '../platform/handover/protocol.ts'
import type { Logger } from '../platform/logger.ts'
import { describeVersion } from '../platform/versions/description.ts'
import { currentLink, type InstalledVersion, programOf, versionAt } from '../platform/versions/installed.ts'
import { ownRoot, ownVersion } from '../platform/versions/own-package.ts'
import type { FairleadServer } from '../server.ts'

/** Replaces this server by another one at the same address. */
export interface Handover {
  /**
   * Starts a server of the current version, which may be the same. Resolves when it answers; this one then finishes what it
   * has accepted, and ends. Rejects with the reason when the new one does not become ready; this one goes on. Calls during a
   * handover share it.
   */
  request(): Promise<Successor>
}

export interface HandoverOptions {
  readonly server: Pick<FairleadServer, 'listener' | 'retire'>
  readonly config: Config
  readonly logger: Logger
  readonly signal: AbortSignal
  /** Tells a service manager how it goes. */
  readonly report?: {
    begun(): Promise<void>
    failed(error: unknown): Promise<void>
    /** The successor speaks for the service from now on. */
    replaced(): void
  }
  /** Called when the last request has been finished, and this server can end. */
  readonly finished: () => void
}

export function createHandover({ server, config, logger, signal, report, finished }: HandoverOptions): Handover {
  let underway: Promise<Successor> | undefined
  const replace = async (): Promise<Successor> => {
    await report?.begun()
    try {
      const current = (await versionAt(currentLink(config.dataDirectory))) ?? { version: ownVersion, root: ownRoot }
      logger.info({ version: current.version }, 'handing over to a new server')
      await assertStarts(current, config.dataDirectory)
      const program = programFor(current)
      const deadlineMs = config.handover.readyMs
      return await handOver({ listener: server.listener, program, deadlineMs, logger, signal })
    } catch (error) {
      underway = undefined
      logger.error({ err: error }, 'the handover failed; this server goes on')
      await report?.failed(error)
      throw error
    }
  }
  const replaceAndRetire = async (): Promise<Successor> => {
    const successor = await replace()
    report?.replaced()
    server
      .retire(config.handover.finishMs)
      .catch((error: unknown) => logger.error({ err: error }, 'not all requests were finished'))
      .finally(finished)
    return successor
  }
  return {
    request() {
      underway ??= replaceAndRetire()
      return underway
    },
  }
}

/** A version that cannot even load itself says so only on its standard error, which is read here. */
async function assertStarts(version: InstalledVersion, dataDirectory: string): Promise<void> {
  if (version.root === ownRoot) return
  const { problems } = await describeVersion(version, dataDirectory)
  if (problems.length > 0) throw new Error(`Version ${version.version} cannot start here:\n${problems.join('\n')}`)
}

/** The successor gets the flags of Node and the options that this server was started with. */
function programFor({ root }: InstalledVersion): [string, ...string[]] {
  const given = process.argv.slice(2).filter((arg) => arg !== successorOption)
  return [process.execPath, ...process.execArgv, programOf(root), ...given, successorOption]
}
