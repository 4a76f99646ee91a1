import { restoreBallast } from '../../platform/disk/free-space.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { Composition } from '../composition.ts'

const everyMs = 60_000

/** Sets room aside for the server's own PostgreSQL, also again after it was given up and there is room. */
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
