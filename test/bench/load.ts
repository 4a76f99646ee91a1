import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import autocannon from 'autocannon'
import { temporaryDirectory } from '../harness/temporary.ts'
import { programEnvironment, versionOf } from './children.ts'
import { quantile } from './statistics.ts'

/** Beyond the time of a round, until `wrk` must have ended. */
const graceMs = 10_000

export interface Round {
  readonly perSecond: number
  readonly p99Ms: number
}

export interface Load extends AsyncDisposable {
  /** What makes the load, in words. */
  readonly name: string
  /** One round against an address. Rejects when any request fails. */
  run(url: string, seconds: number, signal: AbortSignal): Promise<Round>
}

/**
 * Clients that keep their connections and ask as fast as they are answered. What they cost is taken from what is measured,
 * since all of it shares the cores, and draws every ratio towards 1: so it is `wrk` where that is installed, which costs
 * a few microseconds a request, and `autocannon` only where it is not.
 */
export async function createLoad({ connections }: { connections: number }): Promise<Load> {
  const version = await versionOf('wrk', ['-v'])
  return version === null ? autocannonLoad(connections) : wrkLoad(connections, version)
}

const script = `done = function(summary, latency, requests)
  local errors = summary.errors
  local broken = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format('result %d %d %d %d %d\\n',
    summary.requests, summary.duration, latency:percentile(99), broken, errors.status))
end
`

async function wrkLoad(connections: number, version: string): Promise<Load> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const file = join(directory.path, 'report.lua')
  await writeFile(file, script)
  const owned = cleanup.move()
  return {
    name: `wrk ${version}`,
    async run(url, seconds, signal) {
      const args = ['-t', '1', '-c', String(connections), '-d', `${seconds}s`, '-s', file, url]
      const { stdout } = await promisify(execFile)('wrk', args, {
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
    async run(url, seconds, signal) {
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
      assertAnswered(url, { requests: result.requests.total, failed: result.errors, refused: result.non2xx })
      return { perSecond: result.requests.total / result.duration, p99Ms: quantile(times, 0.99) }
    },
    async [Symbol.asyncDispose]() {},
  }
}

function assertAnswered(url: string, count: { requests: number; failed: number; refused: number }): void {
  if (count.requests > 0 && count.failed === 0 && count.refused === 0) return
  throw new Error(`${url}: ${count.failed} of ${count.requests} requests failed, ${count.refused} were refused`)
}
