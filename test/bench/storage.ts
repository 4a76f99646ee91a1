import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { temporaryDirectory } from '../harness/temporary.ts'
import { inTime } from './deadline.ts'
import { type Platform, startPlatform } from './platform.ts'
import type { Bench } from './row.ts'
import { median } from './statistics.ts'

const mebibyte = 1024 * 1024
const full = { fileBytes: 1024 * mebibyte, rounds: 3, parallel: 8, parallelBytes: 256 * mebibyte }
const brief: typeof full = { fileBytes: mebibyte, rounds: 1, parallel: 2, parallelBytes: mebibyte }
const sampleMs = 20

/** Measures the upload and download of a file in turns with a bare server, and the memory during parallel uploads. */
export const benchStorage: Bench = async ({ signal, short }) => {
  const { fileBytes, rounds, parallel, parallelBytes } = short ? brief : full
  await using platform = await startPlatform({}, signal)
  await using floor = await startFloor(signal)
  const { id: project_id } = await platform.client.projects.create({ body: { name: 'Files', plan: 'enterprise' } })
  const uploading = { ...platform, project_id }

  const ups: Pair[] = []
  const downs: Pair[] = []
  for (let round = 0; round < rounds; round++) {
    signal.throwIfAborted()
    const bare = await timed(() => send(floor.url, {}, { bytes: fileBytes, before: '', after: '' }, signal))
    const bareDown = await timed(() => fetchAll(floor.url, fileBytes, signal))
    let made: { id: string; url: string } | undefined
    const ours = await timed(async () => {
      made = await upload(uploading, fileBytes, signal)
    })
    if (made === undefined) throw new Error('nothing was uploaded')
    const { id, url } = made
    const oursDown = await timed(() => fetchAll(url, fileBytes, signal))
    await platform.client.storage.delete({ params: { project_id, id } })
    ups.push({ ours, floor: bare })
    downs.push({ ours: oursDown, floor: bareDown })
  }

  const pid = platform.server.child.pid as number
  const memory = watchMemory(pid)
  const all = await Promise.all(Array.from({ length: parallel }, () => upload(uploading, parallelBytes, signal)))
  const grown = await memory.stop()
  for (const { id } of all) await platform.client.storage.delete({ params: { project_id, id } })

  const [up, down] = [ratio(ups), ratio(downs)]
  return {
    rows: [
      { name: 'storage: upload', measured: `${up.toFixed(2)} of the floor`, aim: { text: '≥ 0.60', met: up >= 0.6 } },
      {
        name: 'storage: download',
        measured: `${down.toFixed(2)} of the floor`,
        aim: { text: '≥ 0.60', met: down >= 0.6 },
      },
      {
        name: `storage: memory, ${parallel} uploads`,
        measured: `+${(grown / mebibyte).toFixed(0)} MiB`,
        aim: { text: '≤ 64 MB', met: grown <= 64e6 },
      },
    ],
    notes: [
      `Medians of ${rounds} rounds in turns with a file of ${fileBytes / mebibyte} MiB. The floor is a bare Node server that pipes the request to a ` +
        'file with the same hash and fsync, without form, API and database, in a process of its own.',
      `Upload: ${describe(ups, fileBytes)}. Download: ${describe(downs, fileBytes)}.`,
      `Memory: the peak of the server's resident set in ${parallel} uploads at once of ${parallelBytes / mebibyte} MiB each, above what it was before them.`,
    ],
  }
}

/** Times in seconds. */
interface Pair {
  readonly ours: number
  readonly floor: number
}

/** Returns the median of our speed relative to the floor's. */
function ratio(pairs: readonly Pair[]): number {
  return median(pairs.map(({ ours, floor }) => floor / ours))
}

function describe(pairs: readonly Pair[], fileBytes: number): string {
  const speed = (seconds: readonly number[]) => `${Math.round(fileBytes / mebibyte / median(seconds))} MiB/s`
  return `${speed(pairs.map(({ ours }) => ours))}, floor ${speed(pairs.map(({ floor }) => floor))}`
}

async function timed(task: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await task()
  return (performance.now() - start) / 1000
}

async function startFloor(signal: AbortSignal): Promise<{ url: string } & AsyncDisposable> {
  await using cleanup = new AsyncDisposableStack()
  const folder = cleanup.use(await temporaryDirectory())
  const program = fileURLToPath(new URL('storage-floor.ts', import.meta.url))
  const child = spawn(process.execPath, [program, folder.path], { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  cleanup.defer(async () => {
    child.kill()
    await exited
  })
  const started = Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    exited.then(() => Promise.reject(new Error('the floor did not start'))),
  ])
  const [port] = await inTime('bare server', signal, started)
  const owned = cleanup.move()
  return { url: `http://127.0.0.1:${port}/`, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

const boundary = 'bench-boundary'

async function upload(
  { server, apiKey, project_id }: Platform & { project_id: string },
  bytes: number,
  signal: AbortSignal,
): Promise<{ id: string; url: string }> {
  const answer = await send(
    `${server.url}/v1/projects/${project_id}/storage/upload`,
    { authorization: `Bearer ${apiKey}`, 'content-type': `multipart/form-data; boundary=${boundary}` },
    {
      bytes,
      before: `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="bench"\r\nContent-Type: application/octet-stream\r\n\r\n`,
      after: `\r\n--${boundary}--\r\n`,
    },
    signal,
  )
  return JSON.parse(answer)
}

interface Sent {
  readonly before: string
  readonly bytes: number
  readonly after: string
}

async function send(
  url: string,
  headers: Readonly<Record<string, string>>,
  { before, bytes, after }: Sent,
  signal: AbortSignal,
): Promise<string> {
  const length = before.length + bytes + after.length
  const outgoing = request(url, {
    method: 'POST',
    agent: false,
    headers: { ...headers, 'content-length': length },
    signal,
  })
  const answered = once(outgoing, 'response')
  const block = Buffer.alloc(64 * 1024, 'fairlead ')
  function* body() {
    yield before
    for (let sent = 0; sent < bytes; sent += block.length) yield block
    yield after
  }
  await pipeline(Readable.from(body(), { objectMode: true }), outgoing)
  const [response] = await answered
  const text = Buffer.concat(await response.toArray()).toString()
  if (response.statusCode >= 300) throw new Error(`an upload was answered with ${response.statusCode}: ${text}`)
  return text
}

async function fetchAll(url: string, fileBytes: number, signal: AbortSignal): Promise<void> {
  const outgoing = request(url, { agent: false, signal })
  outgoing.end()
  const [response] = await once(outgoing, 'response')
  let received = 0
  for await (const chunk of response) received += chunk.length
  if (received !== fileBytes) throw new Error(`a download gave ${received} bytes`)
}

/** Watches the resident memory of a process. `stop` resolves to its largest growth in bytes. */
function watchMemory(pid: number): { stop(): Promise<number> } {
  const stopping = new AbortController()
  const watching = (async () => {
    const before = await resident(pid)
    let peak = before
    while (!stopping.signal.aborted) {
      peak = Math.max(peak, await resident(pid))
      await sleep(sampleMs)
    }
    return peak - before
  })()
  return {
    stop() {
      stopping.abort()
      return watching
    },
  }
}

async function resident(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s*(\d+) kB$/m.exec(status)?.[1]) * 1024
}
