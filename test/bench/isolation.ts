import { readdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { nodeApp, repository } from '../harness/repository.ts'
import { temporaryDirectory } from '../harness/temporary.ts'
import { type Platform, startPlatform } from './platform.ts'
import { createLoad } from './proxy-load.ts'
import { restartMs } from './restart.ts'
import type { Bench } from './row.ts'
import { median } from './statistics.ts'

const full = { rounds: 9 }
const brief: typeof full = { rounds: 1 }
const roundSeconds = 1
const connections = 16
const mostDearerMs = 60
const leastRatio = 0.95

/** An app on a separate platform. */
interface Target {
  readonly platform: Platform
  readonly id: string
  readonly url: string
  readonly startMs: number[]
  readonly perSecond: number[]
}

/**
 * Measures the same app in turns: with all isolation that this machine offers, and without a sandbox and a separate
 * network.
 */
export const benchIsolation: Bench = async ({ signal, short }) => {
  const { rounds } = short ? brief : full
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  await linkWithoutSandbox(directory.path)
  const inside = await startTarget(cleanup.use(await startPlatform({ FAIRLEAD_STABLE_TIME: '0' }, signal)))
  const plain = { FAIRLEAD_STABLE_TIME: '0', FAIRLEAD_APP_NETWORK: 'none', PATH: directory.path }
  const outside = await startTarget(cleanup.use(await startPlatform(plain, signal)))
  const load = cleanup.use(await createLoad({ connections, short }))
  for (let round = 0; round < rounds; round++) {
    for (const target of round % 2 === 0 ? [inside, outside] : [outside, inside]) {
      target.startMs.push(await restartMs(target, signal))
      target.perSecond.push((await load.run(target.url, roundSeconds, signal)).perSecond)
    }
  }
  const dearer = median(inside.startMs.map((ms, at) => ms - (outside.startMs[at] ?? Number.NaN)))
  const ratio = median(inside.perSecond.map((each, at) => each / (outside.perSecond[at] ?? Number.NaN)))
  return {
    rows: [
      {
        name: 'isolation: start',
        measured: `${Math.round(dearer)} ms dearer`,
        aim: { text: `≤ ${mostDearerMs} ms`, met: dearer <= mostDearerMs },
      },
      {
        name: 'isolation: requests/s',
        measured: `${ratio.toFixed(2)} of outside`,
        aim: { text: `≥ ${leastRatio}`, met: ratio >= leastRatio },
      },
    ],
    notes: [
      `Isolation: medians of the differences and ratios in ${rounds} rounds in turns, each a restart and ${roundSeconds} s of ` +
        `${connections} connections of ${load.name} through the gateway.`,
      ...[inside, outside].map(
        ({ startMs, perSecond }, at) =>
          `${at === 0 ? 'inside' : 'outside'}: restart ${Math.round(median(startMs))} ms, ${Math.round(median(perSecond))} requests/s`,
      ),
    ],
  }
}

/** Fills a folder with links to all programs of the system except bubblewrap. */
async function linkWithoutSandbox(folder: string): Promise<void> {
  for (const program of await readdir('/usr/bin')) {
    if (program !== 'bwrap') await symlink(join('/usr/bin', program), join(folder, program))
  }
}

async function startTarget(platform: Platform): Promise<Target> {
  await using source = await repository(nodeApp('Hello'))
  const { id, url } = await platform.deploy({ name: 'web', git_url: source.url })
  return { platform, id, url, startMs: [], perSecond: [] }
}
