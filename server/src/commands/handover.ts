import { join } from 'node:path'
import type { Config } from '../platform/config.ts'
import { handOver } from '../platform/handover/hand-over.ts'
import { successorOption } from '../platform/handover/protocol.ts'
import type { Logger } from '../platform/logger.ts'
import { describeVersion } from '../platform/versions/description.ts'
import { type InstalledVersion, programOf, versionAt } from '../platform/versions/installed.ts'
import { ownRoot, ownVersion } from '../platform/versions/own.ts'
import type { FairleadServer } from '../server.ts'

/**
 * Replaces this server by one of the current version, which may be the same, at each SIGHUP. When that one does not become
 * ready, this server goes on, and the log says why.
 *
 * @param options.replaced is called when the last request has been finished, and this server can end
 */
export function handOverOnHangup(options: {
  readonly server: FairleadServer
  readonly config: Config
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly replaced: () => void
}): void {
  const { server, config, logger, signal, replaced } = options
  let underway = false
  const replace = async () => {
    const current = (await versionAt(join(config.dataDirectory, 'versions', 'current'))) ?? {
      version: ownVersion,
      root: ownRoot,
    }
    logger.info({ version: current.version }, 'SIGHUP: handing over to a new server')
    await assertStarts(current, config.dataDirectory)
    const program = programFor(current)
    await handOver({ listener: server.listener, program, deadlineMs: config.handover.readyMs, logger, signal })
    await server.retire(config.handover.finishMs)
    replaced()
  }
  process.on('SIGHUP', () => {
    if (underway || signal.aborted) return
    underway = true
    replace()
      .catch((error: unknown) => logger.error({ err: error }, 'the handover failed; this server goes on'))
      .finally(() => {
        underway = false
      })
  })
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
