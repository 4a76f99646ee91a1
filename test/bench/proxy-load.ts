import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { get as getByHttp } from 'node:http'
import { get as getByHttps } from 'node:https'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { temporaryDirectory } from '../harness/temporary.ts'
import { programEnvironment, versionOf } from './children.ts'
import { load, type Round } from './load.ts'
import { quantile } from './statistics.ts'

/** The time in which `wrk` must exit after a round. */
const graceMs = 10_000

export type ProxyRound = Pick<Round, 'perSecond' | 'p99Ms'>

export interface Load extends AsyncDisposable {
  /** The name of the load generator. */
  readonly name: string
  /** Runs one round against an address. Rejects when any request fails. */
  run(url: string, seconds: number, signal: AbortSignal): Promise<ProxyRound>
}

/**
 * Creates clients that keep their connections and send the next request after each response. The clients share the
 * cores with the measured servers, and their cost moves every ratio towards 1. Therefore they use `wrk`, which costs a
 * few microseconds per request, and `autocannon` only if `wrk` is not installed.
 */
export async function createLoad({
  connections,
  hosts,
  short,
}: {
  readonly connections: number
  /** True for a few requests in each round, of any duration, from this process. */
  readonly short: boolean
  /** A file that the clients see in place of `/etc/hosts`. */
  readonly hosts?: string
}): Promise<Load> {
  if (short) return fewRequests
  const version = await versionOf('wrk', ['-v'])
  if (version !== null) return wrkLoad(connections, version, hosts)
  if (hosts !== undefined) throw new Error('names of a test are looked up by wrk alone: apt-get install wrk')
  return autocannonLoad(connections)
}

const script = `done = function(summary, latency, requests)
  local errors = summary.errors
  local broken = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format('result %d %d %d %d %d\\n',
    summary.requests, summary.duration, latency:percentile(99), broken, errors.status))
end
`

async function wrkLoad(connections: number, version: string, hosts: string | undefined): Promise<Load> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const file = join(directory.path, 'report.lua')
  await writeFile(file, script)
  const owned = cleanup.move()
  const [program, ...before] =
    hosts === undefined
      ? ['wrk']
      : ['bwrap', '--dev-bind', '/', '/', '--ro-bind', hosts, '/etc/hosts', '--die-with-parent', 'wrk']
  return {
    name: `wrk ${version}`,
    async run(url, seconds, signal) {
      const args = [...before, '-t', '1', '-c', String(connections), '-d', `${seconds}s`, '-s', file, url]
      const { stdout } = await promisify(execFile)(program ?? 'wrk', args, {
        env: programEnvironment(),
        timeout: seconds * 1000 + graceMs,
        signal,
      })
      const [, ...numbers] = /^result (\d+) (\d+) (\d+) (\d+) (\d+)$/m.exec(stdout) ?? []
      const [requests = 0, microseconds = 0, p99 = 0, failed = 0, refused = 0] = numbers.map(Number)
      assertAnswered(url, { requests, failed, refused })
      return { perSecond: requests / (microseconds / 1e6), p99Ms: p99 / 1000 }
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

function autocannonLoad(connections: number): Load {
  return {
    name: 'autocannon (wrk is not installed)',
    run: (url, seconds, signal) => load({ url }, { connections, seconds, signal }),
    async [Symbol.asyncDispose]() {},
  }
}

const requestsOfFew = 20

const fewRequests: Load = {
  name: `${requestsOfFew} requests`,
  async run(url, _, signal) {
    const begun = performance.now()
    const times: number[] = []
    for (let sent = 0; sent < requestsOfFew; sent++) {
      const sentAt = performance.now()
      await requestHere(url, signal)
      times.push(performance.now() - sentAt)
    }
    return { perSecond: (requestsOfFew / (performance.now() - begun)) * 1000, p99Ms: quantile(times, 0.99) }
  },
  async [Symbol.asyncDispose]() {},
}

/** Sends a request to an address whose name leads to this machine. */
async function requestHere(url: string, signal: AbortSignal): Promise<void> {
  const { hostname, port, protocol, pathname, host } = new URL(url)
  const options = { host: '127.0.0.1', port, path: pathname, headers: { host }, signal, agent: false } as const
  const outgoing =
    protocol === 'https:'
      ? getByHttps({ ...options, servername: hostname, rejectUnauthorized: false })
      : getByHttp(options)
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  await response.toArray()
  if (response.statusCode !== 200) throw new Error(`${url} answered ${response.statusCode}`)
}

function assertAnswered(url: string, count: { requests: number; failed: number; refused: number }): void {
  if (count.requests > 0 && count.failed === 0 && count.refused === 0) return
  throw new Error(`${url}: ${count.failed} of ${count.requests} requests failed, ${count.refused} were refused`)
}
