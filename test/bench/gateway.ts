import { availableParallelism } from 'node:os'
import autocannon from 'autocannon'
import { deployAndSettle } from '../harness/deployments.ts'
import { repository } from '../harness/repository.ts'
import { startPlatform } from './platform.ts'
import type { Bench } from './row.ts'
import { median, quantile } from './statistics.ts'

const connections = 16
const rounds = 5
const roundSeconds = 3

interface Round {
  readonly perSecond: number
  readonly p99Ms: number
}

/** The same app under the same load, by its address and by the port that it listens on, in turns. */
export const benchGateway: Bench = async (signal) => {
  await using platform = await startPlatform({})
  signal.throwIfAborted()
  await using source = await repository(app)
  const made = await deployAndSettle(platform.client, platform.projectId, { name: 'web', git_url: source.url })
  if (made.status !== 'running') throw new Error(`the app is ${made.status}: ${made.failure?.message}`)
  const port = await (await fetch(new URL('/port', made.url), { signal })).text()
  const addresses = { direct: `http://127.0.0.1:${port}/`, gateway: made.url }

  await load(addresses.direct, 1, signal)
  await load(addresses.gateway, 1, signal)
  const direct: Round[] = []
  const gateway: Round[] = []
  for (let round = 0; round < rounds; round++) {
    direct.push(await load(addresses.direct, roundSeconds, signal))
    gateway.push(await load(addresses.gateway, roundSeconds, signal))
  }

  const [plain, through] = [summary(direct), summary(gateway)]
  return {
    rows: [
      { name: 'gateway: requests/s', measured: `${(through.perSecond / plain.perSecond).toFixed(2)} of direct` },
      { name: 'gateway: p99', measured: `${(through.p99Ms / plain.p99Ms).toFixed(2)} × direct` },
    ],
    notes: [
      `Medians of ${rounds} rounds of ${roundSeconds} s in turns, ${connections} connections, as fast as they go; app, ` +
        `gateway and clients share ${availableParallelism()} cores.`,
      `Direct: ${describe(plain)}. Through the gateway: ${describe(through)}.`,
    ],
  }
}

const app = {
  'package.json': JSON.stringify({ name: 'web', scripts: { start: 'node server.js' } }),
  'server.js': `require('node:http')
  .createServer((request, response) => response.end(request.url === '/port' ? process.env.PORT : 'Hello'))
  .listen(process.env.PORT)
`,
}

function summary(all: readonly Round[]): Round {
  return { perSecond: median(all.map((round) => round.perSecond)), p99Ms: median(all.map((round) => round.p99Ms)) }
}

function describe({ perSecond, p99Ms }: Round): string {
  return `${Math.round(perSecond)} requests/s, p99 ${p99Ms.toFixed(1)} ms`
}

/** One round. Rejects when any request fails. */
async function load(url: string, seconds: number, signal: AbortSignal): Promise<Round> {
  signal.throwIfAborted()
  const times: number[] = []
  const result = await new Promise<autocannon.Result>((done, fail) => {
    const instance = autocannon({ url, connections, duration: seconds }, (error, outcome) => {
      if (error) fail(error)
      else done(outcome)
    })
    // Its own percentiles are whole milliseconds.
    instance.on('response', (_client, _status, _bytes, milliseconds) => times.push(milliseconds))
    const stop = () => instance.stop()
    signal.addEventListener('abort', stop, { once: true })
    instance.on('done', () => signal.removeEventListener('abort', stop))
  })
  signal.throwIfAborted()
  if (result.errors > 0 || result.non2xx > 0) {
    throw new Error(`${url}: ${result.errors} requests failed, ${result.non2xx} were refused`)
  }
  return { perSecond: result.requests.total / result.duration, p99Ms: quantile(times, 0.99) }
}
