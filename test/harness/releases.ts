import { readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@fairlead/server/client'
import { groupProcesses, variableOf } from '../../server/src/platform/processes.ts'
import { deployAndSettle } from './deployments.ts'
import { type Load, startLoad } from './load.ts'
import { repository } from './repository.ts'

/**
 * Returns the files of an app that names its release in `X-Release` and answers with the method and body of a request:
 * on `/slow` after a while and in two parts, on `/echo` for as long as the client sends, on `/endless` for ever. The
 * app echoes WebSocket messages. It needs the files of `webSocketLibrary` in its folder, and installs nothing.
 */
export function releaseApp(release: number): Record<string, string> {
  return {
    'package.json': JSON.stringify({ name: 'releases', scripts: { start: 'node server.js' } }),
    'server.js': `const { createServer } = require('node:http')
const { WebSocketServer } = require('./ws')

const server = createServer(async (request, response) => {
  response.setHeader('X-Release', ${release})
  if (request.url === '/echo') {
    response.flushHeaders()
    return request.pipe(response)
  }
  if (request.url === '/endless') {
    const timer = setInterval(() => response.write('.'), 20)
    return response.on('close', () => clearInterval(timer))
  }
  let body = ''
  for await (const chunk of request) body += chunk
  if (request.url !== '/slow') return response.end(request.method + ' ' + body)
  response.write(request.method + ' ')
  setTimeout(() => response.end(body), 50)
})
const sockets = new WebSocketServer({ server })
sockets.on('headers', (headers) => headers.push('X-Release: ${release}'))
sockets.on('connection', (socket) => {
  socket.on('error', () => {})
  socket.on('message', (data) => socket.send(data))
})
server.listen(process.env.PORT)
`,
  }
}

/** Returns the package `ws`, which has no dependencies, as files of a repository. */
export async function webSocketLibrary(): Promise<Record<string, string>> {
  const folder = dirname(createRequire(import.meta.url).resolve('ws/package.json'))
  const names = (await readdir(folder, { recursive: true })).filter((name) => /\.(js|json)$/.test(name))
  const files = names.map(async (name) => [`ws/${name}`, await readFile(join(folder, name), 'utf8')])
  return Object.fromEntries(await Promise.all(files))
}

/** An app under constant load that gets one release after another. */
export interface Releasing extends AsyncDisposable {
  readonly url: string
  readonly load: Load
  /** Deploys the next release. Resolves with its number and its deployment's id when the release has answered. */
  release(): Promise<{ number: number; id: string }>
  /** Resolves when only the current release has processes. */
  settled(): Promise<void>
}

/** Deploys release 1 and puts its address under load. */
export async function startReleasing(options: {
  readonly client: Client
  readonly projectId: string
  readonly dataDirectory: string
}): Promise<Releasing> {
  await using cleanup = new AsyncDisposableStack()
  const source = cleanup.use(await repository(await webSocketLibrary()))
  const name = 'releases'
  const deploy = async (number: number) => {
    await source.commit(releaseApp(number))
    const made = await deployAndSettle(options.client, options.projectId, { name, git_url: source.url })
    if (made.status !== 'running') throw new Error(`release ${number} is ${made.status}: ${made.failure?.message}`)
    return made
  }
  let current = await deploy(1)
  let number = 1
  const { url } = current
  const load = cleanup.use(startLoad({ url, release: number }))
  await load.answeredBy(number)

  const owned = cleanup.move()
  return {
    url,
    load,
    async release() {
      const next = number + 1
      load.expect(next)
      current = await deploy(next)
      number = next
      load.require(next)
      await load.answeredBy(next)
      return { number, id: current.id }
    },
    settled: () => untilAlone(options.dataDirectory, current.id),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

const retireTimeoutMs = 60_000

/** Resolves when only this release has processes: all other releases on the disk have drained and ended. */
export async function untilAlone(dataDirectory: string, deploymentId: string): Promise<void> {
  const deadline = performance.now() + retireTimeoutMs
  for (;;) {
    const processes = await groupProcesses((pid) => variableOf(pid, 'FAIRLEAD_DEPLOYMENT_ID'))
    const left = (await releasesOnDisk(dataDirectory))
      .map((folder) => basename(folder))
      .filter((id) => processes.has(id))
    if (left.length === 1 && left[0] === deploymentId) return
    if (performance.now() > deadline) throw new Error(`old releases still run: ${left.join(', ')}`)
    await sleep(200)
  }
}

/** Returns the folders of all releases, whether their apps run as processes or in memory. */
export async function releasesOnDisk(dataDirectory: string): Promise<string[]> {
  const inside = async (folder: string) => (await readdir(folder).catch(() => [])).map((name) => join(folder, name))
  const ofProcesses = (await inside(join(dataDirectory, 'apps'))).map((app) => join(app, 'releases'))
  const found = await Promise.all([...ofProcesses, ...(await inside(join(dataDirectory, 'memory')))].map(inside))
  return found.flat()
}
