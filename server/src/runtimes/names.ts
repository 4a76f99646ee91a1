import type { Config } from '../platform/config.ts'
import { runtimeName as dockerName } from './docker/start.ts'
import { runtimeName as processName } from './process/handle.ts'
import type { Runtime } from './runtime.ts'

export interface RuntimeNames {
  readonly preferred: string
  /** Runs container images; null without one. */
  readonly images: string | null
}

/**
 * Returns the names of the runtimes of a server. Requests need them, too, not only the leader.
 *
 * @param given.moreRuntimes runtimes besides the configured runtimes
 * @param given.preferredRuntime builds and runs new releases in place of the process runtime
 */
export function runtimeNames({
  docker,
  moreRuntimes = [],
  preferredRuntime,
}: {
  readonly docker: Config['docker']
  readonly moreRuntimes: readonly Runtime[] | undefined
  readonly preferredRuntime: Runtime | undefined
}): RuntimeNames {
  const withImages = moreRuntimes.find(({ images }) => images !== null)
  return {
    preferred: preferredRuntime?.name ?? processName,
    images: docker === null ? (withImages?.name ?? null) : dockerName,
  }
}
