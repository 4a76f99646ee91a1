import { randomUUID } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { vi } from 'vitest'
import type { DockerRuntime } from '../../../server/src/runtimes/docker/docker-runtime.ts'
import { nameImage } from '../../../server/src/runtimes/docker/images.ts'
import { imageOf } from '../../../server/src/runtimes/docker/names.ts'
import type { Reach } from '../../../server/src/runtimes/network/reach.ts'
import type { Handle, Release } from '../../../server/src/runtimes/runtime.ts'
import { importBaseImage } from '../docker.ts'
import { createDockerBench, type DockerBench } from '../runtimes/docker/support.ts'

/** An engine with the container runtime and hostile images. */
export interface Containers extends AsyncDisposable {
  readonly bench: DockerBench
  readonly docker: DockerRuntime
  /** Starts an instance of an image in a project. The instance does what the test tells it. */
  start(options?: HostileOptions): Promise<HostileContainer>
  /** Like `start`, for an instance that never listens. */
  startOnly(options?: HostileOptions): Promise<{ release: Release; handle: Handle; output(): Promise<string> }>
}

export interface HostileOptions {
  readonly project?: string
  readonly app?: string
  /** The id of the app, which has volumes. */
  readonly appId?: string
  readonly volumes?: Readonly<Record<string, string>>
  /** Replaces the usual image. */
  readonly from?: string
  /** Instructions as in a Dockerfile, which change the image. */
  readonly changes?: readonly string[]
  /** Parts of the image's configuration that a forged image can contain, but no Dockerfile can set. */
  readonly config?: object
}

export interface HostileContainer {
  readonly release: Release
  readonly handle: Handle
  /** The id of the container. */
  readonly id: string
  /** Its first process. */
  readonly pid: number
  readonly address: string
  readonly gateway: string
  /** Runs the body of an asynchronous function in the container, which has `require`; resolves with its result. */
  run(body: string): Promise<unknown>
  /** Runs a Perl program whose output is JSON. */
  perl(program: string): Promise<unknown>
  /** Opens connections from the container; resolves with `open` or the error code of each connection. */
  open(...to: readonly (readonly [host: string, port: number])[]): Promise<string[]>
  end(): Promise<void>
}

interface Inspected {
  readonly State: { readonly Pid: number }
  readonly NetworkSettings: {
    readonly Networks: Readonly<Record<string, { readonly IPAddress: string; readonly Gateway: string }>>
  }
}

const server = `const work = Object.getPrototypeOf(async () => {}).constructor
require('node:http').createServer(async (request, response) => {
  let body = ''
  for await (const chunk of request) body += chunk
  if (body === '') return response.end('app')
  const answer = await new work('require', body)(require).catch((error) => ({ error: String(error.cause?.code ?? error.code ?? error) }))
  response.end(JSON.stringify(answer ?? null))
}).listen(process.env.PORT)`

/** The image of all hostile containers. */
export const image = 'hostile/image:latest'

/** Opens a separate engine. `reach` says what its containers may reach. */
export async function openContainers(reach: Reach): Promise<Containers> {
  await using cleanup = new AsyncDisposableStack()
  const bench = cleanup.use(await createDockerBench({ reach }))
  const { engine, directory } = bench.dockerd
  await importBaseImage(
    engine,
    { 'app.js': server },
    { name: image, changes: ['CMD ["node", "/app/app.js"]'], more: ['perl'], setuid: ['id', 'perl'] },
  )
  const docker = bench.newRuntime()
  const files: FileHandle[] = []
  cleanup.defer(async () => void (await Promise.all(files.map((file) => file.close()))))
  const startOnly: Containers['startOnly'] = async ({
    project = 'proj_attacker',
    app = 'attacker',
    appId = `app_${randomUUID()}`,
    volumes = {},
    from = image,
    changes = [],
    config = {},
  } = {}) => {
    const release: Release = {
      id: `dep_${randomUUID()}`,
      appId,
      appNumber: 1,
      projectId: project,
      internalName: app,
      limits: { memoryBytes: 256_000_000, cpus: 1, diskBytes: 8e9 },
      variables: {},
      volumes,
    }
    await changed(bench, release, from, { changes, config })
    const path = join(directory, `${release.id}.log`)
    const output = await open(path, 'a+')
    files.push(output)
    const handle = await docker.runtime.instances.start(release, { argv: ['fairlead-image'] }, output)
    return { release, handle, output: async () => (await output.read(Buffer.alloc(1e6), 0, 1e6, 0)).buffer.toString() }
  }
  const owned = cleanup.move()
  return {
    bench,
    docker,
    startOnly,
    async start(options) {
      const { release, handle } = await startOnly(options)
      const id = String(handle.data['container'])
      const { State, NetworkSettings } = await engine.call<Inspected>({
        method: 'GET',
        path: ['containers', id, 'json'],
      })
      const [at] = Object.values(NetworkSettings.Networks)
      const url = await vi.waitFor(() => urlOf(docker, handle), { timeout: 30_000, interval: 50 })
      const run = async (body: string): Promise<unknown> => (await fetch(url, { method: 'POST', body })).json()
      return {
        ...{ release, handle, id, pid: State.Pid, address: at?.IPAddress ?? '', gateway: at?.Gateway ?? '', run },
        perl: async (program) => run(`return ${runsPerl}(${JSON.stringify(program)})`),
        open: async (...to) => (await run(`return Promise.all(${JSON.stringify(to)}.map(${opens}))`)) as string[],
        end: () => docker.runtime.releases.remove(release),
      }
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** @throws Error while the instance does not listen */
async function urlOf({ runtime }: DockerRuntime, handle: Handle): Promise<string> {
  const seen = await runtime.instances.observe(handle)
  const [endpoint] = seen.state === 'listening' ? seen.endpoints : []
  if (endpoint === undefined || !('port' in endpoint)) throw new Error(`the instance is ${JSON.stringify(seen)}`)
  return `http://${endpoint.host}:${endpoint.port}/`
}

/** Makes the image of a release with these instructions and settings. */
async function changed(
  { dockerd: { engine }, server: of }: DockerBench,
  release: Release,
  image: string,
  { changes, config }: Required<Pick<HostileOptions, 'changes' | 'config'>>,
): Promise<void> {
  const name = imageOf(of, release)
  if (changes.length + Object.keys(config).length === 0) return nameImage(engine, image, name)
  const body = { Image: image, HostConfig: { NetworkMode: 'none' } }
  const { Id } = await engine.call<{ Id: string }>({ method: 'POST', path: ['containers', 'create'], body })
  const [repo, tag] = name.split(':')
  await engine.call({
    method: 'POST',
    path: ['commit'],
    query: { container: Id, repo, tag, changes: [...changes] },
    body: config,
  })
  await engine.call({ method: 'DELETE', path: ['containers', Id] })
}

const runsPerl = `((program) => JSON.parse(require('node:child_process').execFileSync('perl', ['-e', program], { encoding: 'utf8' })))`

const opens = `([host, port]) => new Promise((done) => {
  const socket = require('node:net').connect({ host, port, timeout: 2000 }, () => { done('open'); socket.destroy() })
  socket.on('timeout', () => { done('ETIMEDOUT'); socket.destroy() }).on('error', (error) => done(error.code))
})`
