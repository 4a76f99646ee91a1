import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Work, type Workbench, workbench } from '../../harness/attacks/work.ts'
import { serverProcesses } from '../../harness/server-processes.ts'

/*
 * The worst input of each kind, 20 times at once, compared with 20 ordinary inputs in the same run. Absolute times of
 * this machine mean nothing; `npm run bench work` prints them.
 */

const most = 3
/** The server's other work, such as periodic checks and garbage collection. */
const noise = { cpuMs: 200, pauseMs: 40, megabytes: 64 }
/** Other programs of the machine only ever add work. */
const tries = 4

const cleanup = new AsyncDisposableStack()
let bench: Workbench
beforeAll(async () => {
  const servers = cleanup.use(await serverProcesses())
  bench = await workbench(async (settings) => ({
    server: cleanup.use(await servers.start(settings)),
    key: await servers.key(),
  }))
  cleanup.use(bench)
}, 180_000)
afterAll(() => cleanup.disposeAsync())

const kinds = [
  'parts of a form',
  'JSON',
  'lists',
  'dotenv',
  'heads',
  'requests in a pipeline',
  'queries and cursors',
  'bundles',
  'reads of a log',
  'files of a source',
  'answers to webhooks',
]

it.each(kinds)(
  '%s: the worst inputs take the server no more than three times the work of ordinary ones of their size',
  async (name) => {
    const kind = bench.kinds.find((each) => each.name === name)
    if (kind === undefined) throw new Error(`there is no kind ${name}`)
    // The first inputs load modules.
    await bench.measure(kind.ordinary)
    let ordinary = await bench.measure(kind.ordinary)
    const found: Record<string, unknown> = {}
    for (const [what, input] of Object.entries(kind.worst)) {
      let worst = await bench.measure(input)
      for (let tried = 1; tried < tries && !isWithin(worst, ordinary); tried++) {
        worst = least(worst, await bench.measure(input))
        ordinary = await bench.measure(kind.ordinary)
      }
      if (!isWithin(worst, ordinary)) found[what] = { worst, ordinary }
    }
    expect(found).toEqual({})
  },
  300_000,
)

const isWithin = (worst: Work, ordinary: Work): boolean =>
  worst.cpuMs <= ordinary.cpuMs * most + noise.cpuMs &&
  worst.pauseMs <= ordinary.pauseMs * most + noise.pauseMs &&
  worst.megabytes <= ordinary.megabytes + noise.megabytes

const least = (one: Work, other: Work): Work => ({
  cpuMs: Math.min(one.cpuMs, other.cpuMs),
  pauseMs: Math.min(one.pauseMs, other.pauseMs),
  megabytes: Math.min(one.megabytes, other.megabytes),
  healthMs: Math.min(one.healthMs, other.healthMs),
})
