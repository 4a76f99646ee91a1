import { restoreBallast } from '../../platform/disk/free-space.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { Composition } from '../composition.ts'

const everyMs = 60_000

/** Reserves disk space for the server's own PostgreSQL, and reserves it again after a release once there is space. */
export function leadBallast({ config, logger, state, stack }: Composition): void {
  if (config.databaseUrl !== undefined) return
  const ballast = startPeriodic({
    name: 'setting room aside for PostgreSQL',
    everyMs,
    work: () => restoreBallast(state.directory.root, config.deploys.reserveBytes),
    logger,
  })
  stack.defer('ballast', () => ballast.stop())
}
