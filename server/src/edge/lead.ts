import type { Config } from '../platform/config.ts'
import type { DataDirectory } from '../platform/data-directory.ts'
import type { Logger } from '../platform/logger.ts'
import { startPeriodic } from '../platform/periodic.ts'
import type { ShutdownStack } from '../platform/shutdown.ts'
import type { LesserUser } from '../platform/users.ts'
import { endEdge, startEdge } from './edge.ts'
import type { EdgeOptions } from './ensure.ts'
import { edgeHome, makeHome } from './home.ts'

/** The time between checks of the socket, which a cleaner of temporary folders may remove. */
const lookEveryMs = 5_000

export interface EdgeLeaderParts {
  readonly config: Pick<Config, 'edge' | 'path' | 'trustedProxies'>
  readonly directory: Pick<DataDirectory, 'root'>
  readonly stack: ShutdownStack
  readonly logger: Logger
  /**
   * Listens for requests of the edge at a path, in place of any other server. Does nothing while it listens there.
   *
   * @param gid this group may connect, too; `null` for no group
   */
  readonly listen: (path: string, gid: number | null) => Promise<void>
  readonly gateway: EdgeOptions['gateway']
  /** The user of gateway and Caddy; `null` for the server's user. */
  readonly runAs: Pick<LesserUser, 'user' | 'setpriv'> | null
  /** Throws when another server leads. */
  readonly fence: () => void
  /** Called with one sentence for each problem, or with an empty list when the edge works. */
  readonly onProblems: (problems: readonly string[]) => void
}

/**
 * Opens the API for the edge, and starts or adopts the edge. Without a domain, ends the edge of an earlier
 * configuration. Never rejects for problems of the edge: apps and API have other addresses.
 */
export async function leadEdge(parts: EdgeLeaderParts): Promise<void> {
  const { config, directory, stack, logger, gateway, runAs, fence, onProblems } = parts
  if (config.edge === null) return endEdge(directory.root, runAs?.user ?? null)
  const api = listenForEdge(parts)
  stack.defer('the socket of the API for the edge', () => api.stop())
  await api.listening
  const edge = await startEdge({
    dataDirectory: directory.root,
    config: config.edge,
    trustedProxies: config.trustedProxies,
    gateway,
    runAs: runAs && {
      user: runAs.user,
      setpriv: runAs.setpriv,
      hasLowPorts: Math.min(config.edge.httpPort, config.edge.httpsPort) < 1024,
    },
    path: config.path,
    logger,
    fence,
    onProblems,
  })
  stack.defer('edge', edge.stop)
}

/** Listens for requests of the edge while this server leads, and afterwards until another server leads. */
function listenForEdge({ directory, logger, listen, runAs }: EdgeLeaderParts) {
  const home = edgeHome(directory.root)
  const user = runAs?.user ?? null
  const { promise: listening, resolve } = Promise.withResolvers<void>()
  const { stop } = startPeriodic({
    name: 'listening for the edge',
    everyMs: lookEveryMs,
    work: async () => {
      try {
        await makeHome(home, user)
        await listen(home.api, user?.gid ?? null)
      } finally {
        resolve()
      }
    },
    logger,
  })
  return { listening, stop }
}
