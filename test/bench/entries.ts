import { benchAction } from './action.ts'
import { benchApi } from './api.ts'
import { benchBesideBuild } from './beside-build.ts'
import { benchDashboard } from './dashboard.ts'
import { benchDatabases } from './databases.ts'
import { benchDeploy } from './deploy.ts'
import { benchDockerReleases } from './docker-releases.ts'
import { benchEdge } from './edge.ts'
import { benchFirstDeploy } from './first-deploy.ts'
import { benchGateway } from './gateway.ts'
import { benchGenerated } from './generated.ts'
import { benchIdle } from './idle.ts'
import { benchIsolation } from './isolation.ts'
import { benchReleases } from './releases.ts'
import { benchReplicas } from './replicas.ts'
import type { Bench } from './row.ts'
import { benchStart } from './start.ts'
import { benchStorage } from './storage.ts'
import { bubblewrap, caddy, chromium, docker, git, nginx, registry, type Tool, wrk } from './tools.ts'
import { benchWebhooks } from './webhooks.ts'
import { benchWork } from './work.ts'

export interface Entry {
  readonly bench: Bench
  /** The deadline of a whole run. */
  readonly minutes: number
  /** Programs without which the benchmark is skipped. */
  readonly needs: readonly Tool[]
  /** Programs without which the whole run is skipped, too. */
  readonly needsInFull: readonly Tool[]
  /** Programs without which it measures less. */
  readonly uses: readonly Tool[]
}

const entry = (
  bench: Bench,
  minutes: number,
  needs: readonly Tool[] = [],
  { uses = [], inFull: needsInFull = [] }: { uses?: readonly Tool[]; inFull?: readonly Tool[] } = {},
): Entry => ({ bench, minutes, needs, needsInFull, uses })

/** All benchmarks, in their order. */
export const entries: Readonly<Record<string, Entry>> = {
  databases: entry(benchDatabases, 10),
  action: entry(benchAction, 10),
  deploy: entry(benchDeploy, 20, [git]),
  first: entry(benchFirstDeploy, 15, [git]),
  idle: entry(benchIdle, 60, [git]),
  start: entry(benchStart, 10, [git]),
  gateway: entry(benchGateway, 20, [git], { uses: [wrk, nginx, caddy] }),
  edge: entry(benchEdge, 15, [git, caddy], { inFull: [wrk, bubblewrap] }),
  isolation: entry(benchIsolation, 10, [git], { uses: [bubblewrap, wrk] }),
  'beside-build': entry(benchBesideBuild, 45, [git, docker]),
  api: entry(benchApi, 15),
  releases: entry(benchReleases, 20, [git]),
  'docker-releases': entry(benchDockerReleases, 20, [docker, registry]),
  generated: entry(benchGenerated, 20, [git, docker]),
  replicas: entry(benchReplicas, 20, [git]),
  webhooks: entry(benchWebhooks, 20),
  work: entry(benchWork, 60, [git]),
  storage: entry(benchStorage, 20),
  dashboard: entry(benchDashboard, 20, [git, chromium]),
}
