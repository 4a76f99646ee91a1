import { availableParallelism } from 'node:os'
import { deployAndSettle } from '../harness/deployments.ts'
import { repository } from '../harness/repository.ts'
import { describe, load, type Round, summary } from './load.ts'
import { startPlatform } from './platform.ts'
import type { Bench } from './row.ts'

const connections = 16
const rounds = 5
const roundSeconds = 3

/** The same app under the same load, by its address and by the port that it listens on, in turns. */
export const benchGateway: Bench = async (signal) => {
  await using platform = await startPlatform({})
  signal.throwIfAborted()
  await using source = await repository(app)
  const made = await deployAndSettle(platform.client, platform.projectId, { name: 'web', git_url: source.url })
  if (made.status !== 'running') throw new Error(`the app is ${made.status}: ${made.failure?.message}`)
  const port = await (await fetch(new URL('/port', made.url), { signal })).text()
  const addresses = { direct: `http://127.0.0.1:${port}/`, gateway: made.url }

  const measure = (url: string, seconds: number) => load({ url }, { connections, seconds, signal })
  await measure(addresses.direct, 1)
  await measure(addresses.gateway, 1)
  const direct: Round[] = []
  const gateway: Round[] = []
  for (let round = 0; round < rounds; round++) {
    direct.push(await measure(addresses.direct, roundSeconds))
    gateway.push(await measure(addresses.gateway, roundSeconds))
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
