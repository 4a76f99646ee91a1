import { type Work, workbench } from '../harness/attacks/work.ts'
import { startPlatform } from './platform.ts'
import type { Bench, Row } from './row.ts'

const full = { rounds: 3, warmUps: 1, inputs: Number.POSITIVE_INFINITY }
/** `system/attacks/work` sends all inputs. */
const brief: typeof full = { rounds: 1, warmUps: 0, inputs: 1 }
const aims = { pauseMs: 50, healthMs: 100, megabytes: 64 }

/** Measures the cost of the worst inputs of each kind in the server's one thread, 20 at once. */
export const benchWork: Bench = async ({ signal, short }) => {
  const { rounds, warmUps, inputs } = short ? brief : full
  await using cleanup = new AsyncDisposableStack()
  const bench = cleanup.use(
    await workbench(async (settings) => {
      const { server, apiKey } = cleanup.use(await startPlatform(settings, signal))
      return { server, key: apiKey }
    }),
  )
  const best = async (measure: () => Promise<Work>): Promise<Work> => {
    let found = await measure()
    for (let round = 1; round < rounds; round++) {
      signal.throwIfAborted()
      found = each(Math.min, found, await measure())
    }
    return found
  }
  const idle = await best(() => bench.idle())
  const rows: Row[] = []
  for (const { name, ordinary, worst } of bench.kinds) {
    for (let sent = 0; sent < warmUps; sent++) await bench.measure(ordinary)
    rows.push(rowOf(`work: ${name}, ordinary`, await best(() => bench.measure(ordinary)), idle))
    let most: Work | undefined
    for (const input of Object.values(worst).slice(0, inputs)) {
      const work = await best(() => bench.measure(input))
      most = most === undefined ? work : each(Math.max, most, work)
    }
    if (most !== undefined) rows.push(rowOf(`work: ${name}, worst`, most, idle))
  }
  return {
    rows,
    notes: [
      `Work: 20 inputs at once; the least of ${rounds} rounds for each input, and the most of the inputs of a kind. A pause is time of the thread's own, which other programs of the machine do not lengthen.`,
    ],
  }
}

function rowOf(name: string, { pauseMs, cpuMs, healthMs, megabytes }: Work, idle: Work): Row {
  const slower = Math.max(0, healthMs - idle.healthMs)
  return {
    name,
    measured: `pause ${pauseMs.toFixed(0)} ms, CPU ${cpuMs.toFixed(0)} ms, /healthz +${slower.toFixed(0)} ms, ${megabytes.toFixed(0)} MB`,
    aim: {
      text: `≤ ${aims.pauseMs} ms, +${aims.healthMs} ms, ${aims.megabytes} MB`,
      met: pauseMs <= aims.pauseMs && slower <= aims.healthMs && megabytes <= aims.megabytes,
    },
  }
}

const each = (choose: (...values: number[]) => number, one: Work, other: Work): Work => ({
  pauseMs: choose(one.pauseMs, other.pauseMs),
  cpuMs: choose(one.cpuMs, other.cpuMs),
  megabytes: choose(one.megabytes, other.megabytes),
  healthMs: choose(one.healthMs, other.healthMs),
})
