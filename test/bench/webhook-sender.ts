import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createReceiver } from '@fairlead/receiver'
import Koa from 'koa'
import { pino } from 'pino'
import { announce } from '../../server/src/features/webhooks/outbox.ts'
import { loadConfig } from '../../server/src/platform/config.ts'
import { openState } from '../../server/src/platform/state.ts'
import { inTime } from './deadline.ts'
import { type Platform, startPlatform } from './platform.ts'
import type { Bench, Row } from './row.ts'
import { median, quantile } from './statistics.ts'

const full = { warmUp: 50, single: 300, deliveries: 5_000, manyEndpoints: 100, rounds: 3 }
const brief: typeof full = { warmUp: 0, single: 3, deliveries: 20, manyEndpoints: 5, rounds: 1 }
const aimMs = 20

/** Measures the time from a committed event to its handler, and the deliveries per second. */
export const measureSender: Bench = async ({ signal, short }) => {
  const length = short ? brief : full
  const { single, deliveries, manyEndpoints, rounds } = length
  await using platform = await startPlatform({}, signal)
  await using outbox = await openOutbox(platform, signal)
  const latencies = await latency(platform, outbox, length, signal)
  const [one, bareOne] = await throughput(platform, outbox, { ...length, endpoints: 1 }, signal)
  const [many, bareMany] = await throughput(platform, outbox, { ...length, endpoints: manyEndpoints }, signal)
  const middle = median(latencies)
  return {
    rows: [
      {
        name: 'webhooks: event committed → handler called, median',
        measured: `${middle.toFixed(1)} ms`,
        aim: { text: `≤ ${aimMs} ms`, met: middle <= aimMs },
      },
      { name: 'webhooks: the same, 99th percentile', measured: `${quantile(latencies, 0.99).toFixed(1)} ms` },
      rate('one receiver', one, bareOne),
      rate(`${manyEndpoints} receivers`, many, bareMany),
    ],
    notes: [
      `Latency: ${single} events one after the other, to a Koa app with @fairlead/receiver, on loopback.`,
      `Deliveries: ${deliveries} are committed at once; every attempt is recorded. Best of ${rounds} rounds. The bare loop signs and ` +
        'posts with as many requests at the same time, and records nothing. The receivers run in a third process.',
    ],
  }
}

function rate(to: string, sent: number, bare: number): Row {
  const parts = `${Math.round(sent)}/s, bare loop ${Math.round(bare)}/s (${(sent / bare).toFixed(2)})`
  return { name: `webhooks: deliveries to ${to}`, measured: parts }
}

interface Outbox extends AsyncDisposable {
  /** Commits this many events in one transaction. */
  announce(count: number): Promise<void>
}

/** Opens the platform's database to announce events as its features do. */
async function openOutbox(platform: Platform, signal: AbortSignal): Promise<Outbox> {
  const config = loadConfig({ dataDir: platform.dataDirectory })
  const state = await openState({ config, logger: pino({ level: 'silent' }), supervise: false, signal })
  const { rows } = await state.pool.query<{ id: string }>('select id from accounts where operator')
  const accountId = String(rows[0]?.id)
  const { projectId } = platform
  return {
    announce: (count) =>
      state.db.transaction().execute(async (transaction) => {
        for (let made = 0; made < count; made++) {
          const data = { deployment_id: `dep_${made}`, project_id: projectId, url: 'https://app.example.com' }
          await announce(transaction, { accountId, projectId, event: 'deployment.succeeded', data })
        }
      }),
    [Symbol.asyncDispose]: () => state.close(),
  }
}

async function latency(
  platform: Platform,
  outbox: Outbox,
  { warmUp, single }: typeof full,
  signal: AbortSignal,
): Promise<number[]> {
  let called = Promise.withResolvers<number>()
  let app = new Koa()
  await using server = await listening(createServer((request, response) => void app.callback()(request, response)))
  const hook = await platform.client.webhooks.create({ body: { url: server.url } })
  const receiver = createReceiver({ secrets: [hook.secret] })
  receiver.on('deployment.succeeded', () => called.resolve(performance.now()))
  app = new Koa().use(receiver.middleware({ path: '/' }))
  const latencies: number[] = []
  for (let event = 0; event < warmUp + single; event++) {
    signal.throwIfAborted()
    called = Promise.withResolvers<number>()
    await outbox.announce(1)
    const committedAt = performance.now()
    latencies.push((await inTime('call of the handler', signal, called.promise)) - committedAt)
  }
  await platform.client.webhooks.delete({ params: { id: hook.id } })
  return latencies.slice(warmUp)
}

/** Returns the best deliveries per second of the platform and of the bare loop. */
async function throughput(
  platform: Platform,
  outbox: Outbox,
  { deliveries, rounds, endpoints }: typeof full & { readonly endpoints: number },
  signal: AbortSignal,
): Promise<[number, number]> {
  let received = 0
  let expected = Number.POSITIVE_INFINITY
  let done = Promise.withResolvers<void>()
  const receive = () => {
    if (++received === expected) done.resolve()
  }
  await using servers = new AsyncDisposableStack()
  const urls: string[] = []
  for (let number = 0; number < endpoints; number++) {
    const server = createServer((request, response) => {
      request.resume().on('end', () => {
        receive()
        response.writeHead(204).end()
      })
    })
    urls.push(servers.use(await listening(server)).url)
  }
  const bare = async () => {
    expected = Number.POSITIVE_INFINITY
    const program = fileURLToPath(new URL('webhooks-bare.ts', import.meta.url))
    const parallel = String(Math.max(10, endpoints))
    const { stdout } = await promisify(execFile)(process.execPath, [program, String(deliveries), parallel, ...urls], {
      signal,
    })
    return Number(stdout)
  }
  const sent = async () => {
    received = 0
    expected = deliveries
    done = Promise.withResolvers()
    await outbox.announce(deliveries / endpoints)
    const startedAt = performance.now()
    await inTime('delivery to every receiver', signal, done.promise)
    return deliveries / ((performance.now() - startedAt) / 1000)
  }
  const hooks = await Promise.all(urls.map((url) => platform.client.webhooks.create({ body: { url } })))
  const rates: [number[], number[]] = [[], []]
  for (let round = 0; round < rounds; round++) {
    signal.throwIfAborted()
    rates[0].push(await sent())
    rates[1].push(await bare())
  }
  for (const { id } of hooks) await platform.client.webhooks.delete({ params: { id } })
  return [Math.max(...rates[0]), Math.max(...rates[1])]
}

async function listening(server: Server): Promise<{ url: string } & AsyncDisposable> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
