import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chown, lstat, mkdir, open, readFile, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Engine } from '../../../../server/src/runtimes/docker/client.ts'
import {
  findRunningDaemons,
  type RunningDaemon,
} from '../../../../server/src/runtimes/docker/dockerfiles/daemon-record.ts'
import type { ImageBuilds } from '../../../../server/src/runtimes/docker/dockerfiles/image-builds.ts'
import type { Reach } from '../../../../server/src/runtimes/network/reach.ts'
import type { Exit, RegistryCredentials, Release } from '../../../../server/src/runtimes/runtime.ts'
import { importBaseImage, noDocker, startDockerd } from '../../docker.ts'
import { noNetworks, noReach, testNetwork } from '../../networks.ts'
import { temporaryDirectory } from '../../temporary.ts'
import type { BuildAssignment } from './build-process.ts'
import { imageOf, type OpenBuildsOptions, openBuilds, partsOf } from './open-builds.ts'

/*
 * Builds Dockerfiles by the real daemon, for a separate engine of the test. The engine has one image, made of files of
 * this machine; Dockerfiles may begin with it.
 */

/** Returns why Dockerfiles cannot be built here; null when they can. */
export async function noDockerfiles(): Promise<string | null> {
  const why = (await noDocker()) ?? (await noNetworks())
  if (why !== null) return why
  const found = await partsOf('/nowhere', {
    open: async () => ({ enter: [], ready: Promise.resolve() }),
    remove: async () => {},
  })
  if (found.ok) await found.parts.groups.close()
  await found.yielding?.close()
  return found.ok ? null : found.reason
}

/** The base image of the Dockerfiles: a shell and the programs that attacks use. */
export const baseImage = 'fairlead-test/small:latest'
/**
 * The label of front ends (`# syntax=`) that need no network. Other front ends do not run here, because the daemon has
 * no bridge.
 */
export const frontEndLabel = 'moby.buildkit.frontend.network.none=true'
const others = [
  'bash',
  'cat',
  'chmod',
  'cp',
  'dd',
  'env',
  'head',
  'id',
  'ls',
  'mkdir',
  'mknod',
  'mount',
  'perl',
  'rm',
  'sleep',
  'timeout',
  'tr',
]

/** A file's text, or the target of a symbolic link. */
export type Files = Readonly<Record<string, string | { readonly link: string }>>

export interface BuildOptions {
  readonly path?: string
  readonly target?: string | null
  readonly context?: string
  /** The app of the build; by default each build has a different app. */
  readonly app?: string
  readonly variables?: Readonly<Record<string, string>>
  /** The project's credentials by registry. */
  readonly credentials?: Readonly<Record<string, RegistryCredentials>>
  readonly signal?: AbortSignal
  /** Called when the log contains this text. */
  readonly when?: { readonly text: string; readonly then: () => void }
}

export interface Built extends Exit {
  readonly release: string
  readonly log: string
  /** The image on the apps' engine; null without an image. */
  readonly image: Image | null
}

export interface Image {
  readonly Id: string
  readonly Config: { readonly Labels: Readonly<Record<string, string>> | null; readonly Env: readonly string[] }
}

export interface Fixture extends AsyncDisposable {
  /** The engine that runs apps. */
  readonly engine: Engine
  readonly builds: ImageBuilds
  /** The folder of the daemons' data. */
  readonly folder: string
  /** Lists the control groups of builds. */
  groups(): Promise<string[]>
  /** Sets whether builds leave a core free from now on; initially they do not. */
  leaveCore(leaves: boolean): void
  /** Builds a Dockerfile. A Dockerfile without `FROM` begins with the base image. */
  build(files: Files, options?: BuildOptions): Promise<Built>
  /** Returns the log of the latest build, even if it was rejected. */
  lastLog(): Promise<string>
  /** Builds in a process that is killed once the log has this text. Returns the daemons that ran until then. */
  kill(files: Files, text: string): Promise<readonly RunningDaemon[]>
}

export interface FixtureOptions {
  readonly reach?: Partial<Reach>
  readonly memoryBytes?: number
  readonly environment?: Readonly<Record<string, string>>
}

export async function fixture({
  reach,
  memoryBytes = 512_000_000,
  environment = {},
}: FixtureOptions = {}): Promise<Fixture> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory()).path
  const dockerd = cleanup.use(await startDockerd())
  await importBaseImage(dockerd.engine, {}, { name: baseImage, others })
  const options: OpenBuildsOptions = {
    directory,
    range: testNetwork,
    reach: { ...noReach, ...reach },
    memoryBytes,
    environment,
    bases: [baseImage],
  }
  const { builds, folder, sourceOf, groups, leaveCore } = cleanup.use(await openBuilds(dockerd.engine, options))
  const owned = cleanup.move()

  let lastLogFile = ''
  return {
    engine: dockerd.engine,
    builds,
    lastLog: () => readFile(lastLogFile, 'utf8'),
    folder,
    groups,
    leaveCore,
    async kill(files, text) {
      const release = releaseOf('app_killed')
      await writeTree(sourceOf(release), files)
      const log = join(directory, 'killed.log')
      const { socket } = dockerd.engine
      const assignment = JSON.stringify({ socket, options, release, log } satisfies BuildAssignment)
      const program = fileURLToPath(new URL('build-process.ts', import.meta.url))
      const builder = spawn(process.execPath, [program, assignment], { stdio: ['ignore', 'ignore', 'inherit'] })
      const exit = once(builder, 'exit')
      for (let found = ''; !found.includes(text) && builder.exitCode === null; await sleep(50)) {
        found = await readFile(log, 'utf8').catch(() => '')
      }
      const running = await findRunningDaemons(folder)
      builder.kill('SIGKILL')
      await exit
      return running
    },
    async build(
      files,
      { path = 'Dockerfile', target = null, context = '.', app, variables = {}, when, ...given } = {},
    ) {
      const { signal = new AbortController().signal, credentials = {} } = given
      const release = releaseOf(app ?? `app_${randomUUID().slice(0, 8)}`, variables)
      const source = sourceOf(release)
      await writeTree(source, files)
      const logFile = join(directory, `${release.id}.log`)
      lastLogFile = logFile
      await using output = await open(logFile, 'a+')
      const watch = when === undefined ? undefined : setInterval(() => void look(), 50)
      const look = async () => {
        if ((await readFile(logFile, 'utf8')).includes(when?.text ?? '')) {
          clearInterval(watch)
          when?.then()
        }
      }
      try {
        const credentialsFor = async (registry: string) => credentials[registry] ?? null
        const options = { output, signal, credentialsFor }
        const exit = await builds.build(release, { path, target, context }, options)
        const log = await readFile(logFile, 'utf8')
        return { ...exit, release: release.id, log, image: await imageNamed(dockerd.engine, imageOf(release).name) }
      } finally {
        clearInterval(watch)
      }
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

const releaseOf = (appId: string, variables: Readonly<Record<string, string>> = {}): Release => ({
  id: `dep_${randomUUID().slice(0, 8)}`,
  appId,
  projectId: 'proj_1',
  internalName: 'app',
  appNumber: 1,
  limits: { memoryBytes: 512_000_000, cpus: 2, diskBytes: 8e9 },
  variables,
})

const imageNamed = (engine: Engine, name: string): Promise<Image | null> =>
  engine.call<Image>({ method: 'GET', path: ['images', name, 'json'] }).catch(() => null)

/** Sources belong to the user of the app, as after the runtime's sealing. */
async function writeTree(source: string, files: Files): Promise<void> {
  await mkdir(source, { recursive: true, mode: 0o700 })
  for (const [name, content] of Object.entries(files)) {
    const path = join(source, name)
    await mkdir(dirname(path), { recursive: true })
    if (typeof content !== 'string') await symlink(content.link, path)
    else if (name.endsWith('Dockerfile') && !/^(\s|#.*\n)*FROM/m.test(content)) {
      await writeFile(path, `FROM ${baseImage}\n${content}`)
    } else await writeFile(path, content)
    if (!(await lstat(path)).isSymbolicLink()) await chown(path, 100_001, 100_001)
  }
  await chown(source, 100_001, 100_001)
}

/** Runs a command in a container of a release's image, and returns its output. */
export async function runIn(engine: Engine, release: string, command: readonly string[]): Promise<string> {
  const { Id } = await engine.call<{ Id: string }>({
    method: 'POST',
    path: ['containers', 'create'],
    body: { Image: `fairlead/test:${release}`, Cmd: command, Tty: true, HostConfig: { NetworkMode: 'none' } },
  })
  try {
    await engine.call({ method: 'POST', path: ['containers', Id, 'start'] })
    await engine.call({ method: 'POST', path: ['containers', Id, 'wait'] })
    const answer = await engine.open({ method: 'GET', path: ['containers', Id, 'logs'], query: { stdout: true } })
    const chunks: Buffer[] = []
    for await (const chunk of answer) chunks.push(chunk as Buffer)
    return Buffer.concat(chunks).toString('utf8').replaceAll('\r\n', '\n')
  } finally {
    await engine.call({ method: 'DELETE', path: ['containers', Id], query: { force: true } })
  }
}
