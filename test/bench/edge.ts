import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testAuthority, visit } from '../harness/edge.ts'
import { freePort } from '../harness/ports.ts'
import { repository } from '../harness/repository.ts'
import { temporaryDirectory } from '../harness/temporary.ts'
import { inTime } from './deadline.ts'
import { startPlatform } from './platform.ts'
import { type ProxyProgram, secureCaddy, startProxy } from './proxies.ts'
import { createLoad, type ProxyRound } from './proxy-load.ts'
import type { Bench, BenchResult } from './row.ts'
import { median } from './statistics.ts'

const domain = 'fairlead-bench.net'
const connections = 16
const roundSeconds = 1
const full = { warmUpSeconds: 3, rounds: 31 }
const brief: typeof full = { warmUpSeconds: 1, rounds: 1 }
const leastRequests = 0.5
const mostP99 = 2

/**
 * Measures one app over HTTPS under the same load in turns: behind the edge and the gateway, and behind Caddy without
 * them. Both end TLS with a certificate of the same kind.
 */
export const benchEdge: Bench = async ({ signal, short }) => {
  const { warmUpSeconds, rounds } = short ? brief : full
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const [httpPort, httpsPort] = [await freePort(), await freePort()]
  const platform = cleanup.use(
    await startPlatform(
      {
        FAIRLEAD_DOMAIN: domain,
        FAIRLEAD_ACME_EMAIL: `bench@${domain}`,
        // Needs no authority: the certificate is uploaded.
        FAIRLEAD_ACME_URL: 'https://127.0.0.1:1/directory',
        FAIRLEAD_EDGE_HTTP_PORT: String(httpPort),
        FAIRLEAD_EDGE_HTTPS_PORT: String(httpsPort),
        FAIRLEAD_GATEWAY_PORT: String(await freePort()),
        FAIRLEAD_APP_NETWORK: 'none',
        FAIRLEAD_FILE_SOURCES: tmpdir(),
      },
      signal,
    ),
  )
  const source = cleanup.use(await repository(app))
  const made = await platform.deploy({ name: 'web', git_url: source.url })
  const { hostname } = new URL(made.url)
  const hosts = join(directory.path, 'hosts')
  await writeFile(hosts, `127.0.0.1 ${hostname} localhost\n`)
  const load = cleanup.use(await createLoad({ connections, hosts, short }))

  const pem = await (await testAuthority()).issue(hostname)
  const certificate = pem.slice(pem.indexOf('-----BEGIN CERTIFICATE-----'))
  await platform.client.certificates.create({
    body: { certificate, private_key: pem.slice(0, pem.indexOf('-----BEGIN CERTIFICATE-----')) },
  })
  const edge = new URL(made.url).href
  const port = await inTime(
    'answer of the app over HTTPS',
    signal,
    visit({ host: hostname, port: httpsPort, path: '/port' }).then(({ text }) => Number(text)),
  )
  await load.run(edge, warmUpSeconds, signal)
  const alone: ProxyProgram = secureCaddy(pem)
  const proxy = cleanup.use(await startProxy(alone, { app: port, signal, hostname }))
  if (proxy === null) throw new Error('Caddy was there a moment ago')
  await load.run(proxy.address, warmUpSeconds, signal)

  const measured: { readonly edge: ProxyRound; readonly alone: ProxyRound }[] = []
  for (let round = 0; round < rounds; round++) {
    const ofEdge = () => load.run(edge, roundSeconds, signal)
    const ofAlone = () => load.run(proxy.address, roundSeconds, signal)
    // In turns, so that other load on the machine affects both alike.
    if (round % 2 === 0) measured.push({ edge: await ofEdge(), alone: await ofAlone() })
    else {
      const first = await ofAlone()
      measured.push({ edge: await ofEdge(), alone: first })
    }
  }
  return result(measured, `${load.name}, ${alone.name} ${proxy.version}`)
}

const app = {
  'package.json': JSON.stringify({ name: 'web', scripts: { start: 'node server.js' } }),
  'server.js': `require('node:http')
  .createServer((request, response) => response.end(request.url === '/port' ? process.env.PORT : 'Hello'))
  .listen(process.env.PORT)
`,
}

function result(
  measured: readonly { readonly edge: ProxyRound; readonly alone: ProxyRound }[],
  programs: string,
): BenchResult {
  const ratio = (figure: keyof ProxyRound) => median(measured.map(({ edge, alone }) => edge[figure] / alone[figure]))
  const of = (target: 'edge' | 'alone', figure: keyof ProxyRound) =>
    median(measured.map((each) => each[target][figure]))
  const [requests, p99] = [ratio('perSecond'), ratio('p99Ms')]
  return {
    rows: [
      {
        name: 'edge and gateway: requests/s',
        measured: `${requests.toFixed(2)} of Caddy alone`,
        aim: { text: `≥ ${leastRequests}`, met: requests >= leastRequests },
      },
      {
        name: 'edge and gateway: p99',
        measured: `${p99.toFixed(2)} × Caddy alone`,
        aim: { text: `≤ ${mostP99}`, met: p99 <= mostP99 },
      },
    ],
    notes: [
      `HTTPS: medians of the ratios in ${measured.length} rounds of ${roundSeconds} s in turns; ${connections} connections, HTTP/1.1; ${programs}.`,
      ...(['edge', 'alone'] as const).map(
        (target) =>
          `${target}: ${Math.round(of(target, 'perSecond'))} requests/s, p99 ${of(target, 'p99Ms').toFixed(1)} ms.`,
      ),
    ],
  }
}
