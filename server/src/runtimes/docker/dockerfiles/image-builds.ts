import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { formatImageReference } from '../../../contract/image-reference.ts'
import type { Caches } from '../../../platform/disk/caches.ts'
import { removeFolder } from '../../../platform/disk/folders.ts'
import { sizeOf } from '../../../platform/disk/tree-size.ts'
import { exists } from '../../../platform/files.ts'
import { type ExceededLimit, leastBuildCpus, mostProcesses } from '../../limits.ts'
import { type Exit, type Images, type Release, type ReleaseRef, RuntimeError } from '../../runtime.ts'
import { inspectForeign, inspectImage } from '../calls.ts'
import type { Engine } from '../client.ts'
import { imageProblem } from '../images.ts'
import { readJsonLines } from '../streams.ts'
import { type BuildOutcome, buildImage } from './buildkit.ts'
import { type BuildContext, contextArchive, findContext, fullName, imagesIn } from './context.ts'
import { type BuildDaemon, type DaemonParts, readerView, startDaemon } from './daemon.ts'
import { type DaemonHome, homeOf } from './daemon-record.ts'
import { type FoundParts, proxiesIn } from './requirements.ts'

/** Builds tenants' Dockerfiles, each on a separate Docker engine that ends with the build. */
export interface ImageBuilds extends Pick<Images, 'canBuild' | 'build'> {
  isBuilding(appId: string): boolean
  /** Removes the data that builds of an app keep. No build of the app may run. */
  removeApp(appId: string): Promise<void>
  /**
   * Returns the disk use of the data that builds of an app keep, in bytes. May return any number above `enough` as soon
   * as there are more.
   */
  diskUsage(appId: string, enough?: number): Promise<number>
  /** Removes control groups of ended daemons. */
  close(): Promise<void>
}

export interface ImageBuildsOptions {
  readonly folder: string
  /** The programs and capabilities of this machine for builds, or the reason for their absence. */
  readonly found: FoundParts
  /** The engine that runs apps. It receives the images. */
  readonly engine: Pick<Engine, 'open' | 'call'>
  /** Returns the image name of a release, and the labels that identify it for the server. */
  readonly imageOf: (release: ReleaseRef) => {
    readonly name: string
    readonly labels: Readonly<Record<string, string>>
  }
  readonly sourceOf: (release: ReleaseRef) => string
  readonly environment: Readonly<Record<string, string>>
  /** The names of engine images that Dockerfiles may use, in addition to registry images. */
  readonly bases: readonly string[]
  /** The memory limit of each build, and the disk limit of the data that builds of an app keep, in bytes. */
  readonly limits: { readonly memoryBytes: number; readonly cacheBytes: number }
  /** Locks an app's build data during a build. */
  readonly caches: Pick<Caches, 'use' | 'isInUse'>
}

/**
 * The share of the daemon itself, in addition to the build: dockerd and containerd have some thirty threads and 150 MB.
 */
const ownProcesses = 128
const ownMemoryBytes = 256_000_000
const labelPrefix = 'app.fairlead.'
/** The engine counts sizes differently than the disk. */
const keptShare = 0.75

type Parts = Omit<ImageBuildsOptions, 'found'> & { readonly daemon: DaemonParts }

export function createImageBuilds(options: ImageBuildsOptions): ImageBuilds {
  const { folder, caches, found } = options
  const cacheOf = (appId: string) => homeOf(folder, appId).folder
  return {
    canBuild: found.ok,
    async build(release, file, given) {
      const { signal } = given
      signal.throwIfAborted()
      if (!found.ok) throw new RuntimeError('no_sandbox', found.reason)
      const parts: Parts = { ...options, daemon: found.parts }
      return caches.use(cacheOf(release.appId), signal, () => build(parts, release, file, given))
    },
    isBuilding: (appId) => caches.isInUse(cacheOf(appId)),
    removeApp: (appId) => removeFolder(cacheOf(appId)),
    diskUsage: (appId, enough) => sizeOf([cacheOf(appId)], enough),
    close: async () => (found.ok ? found.parts.groups.close() : undefined),
  }
}

type File = Parameters<Images['build']>[1]
type Options = Parameters<Images['build']>[2]

async function build(parts: Parts, release: Release, file: File, options: Options): Promise<Exit> {
  const { output, signal } = options
  const found = await findContext(parts.sourceOf(release), file)
  if (!found.ok) {
    await output.write(`${found.reason}\n`)
    return failed(1)
  }
  const home = homeOf(parts.folder, release.appId)
  const daemon = await startOn(parts, home, release, signal)
  let isWhole = false
  try {
    const outcome = await make(parts, daemon, release, { ...found.context, target: file.target }, options)
    if (!outcome.ok) await output.write(`${outcome.message.trim()}\n`)
    const limit = outcome.ok ? null : await exceeded(parts, daemon)
    isWhole = limit === null && (await prune(parts, daemon.engine, signal))
    if (outcome.ok) return { code: 0, signal: null, exceeded: null }
    if (limit === null) await assertImage(outcome, options)
    return failed(outcome.code, limit)
  } catch (error) {
    signal.throwIfAborted()
    const limit = await exceeded(parts, daemon)
    // The kernel may have killed the daemon itself.
    if (limit === null) throw error
    return failed(null, limit)
  } finally {
    const isWritten = await daemon.end()
    if (isWhole && isWritten) await rm(home.inUse, { force: true })
  }
}

function startOn(parts: Parts, home: DaemonHome, release: Release, signal: AbortSignal): Promise<BuildDaemon> {
  const given = { id: release.id, limits: groupLimits(parts, release) }
  const start = () => startDaemon(parts.daemon, home, given, signal)
  return startOnKept(home, start, ({ engine }) => isSound(engine, signal), signal)
}

/**
 * Starts the daemon on the data of earlier builds. An interrupted daemon may have left inconsistent data. The function
 * removes them only when the daemon starts without them: otherwise the failure may have any other reason.
 */
export async function startOnKept<Daemon extends { end(): Promise<unknown> }>(
  home: DaemonHome,
  start: () => Promise<Daemon>,
  isSound: (daemon: Daemon) => Promise<boolean>,
  signal: AbortSignal,
): Promise<Daemon> {
  const aside = `${home.data}-aside`
  await mkdir(home.folder, { recursive: true, mode: 0o700 })
  const isUnsettled = await exists(home.inUse)
  await writeFile(home.inUse, '')
  if (!isUnsettled) return start()
  // A server killed between the two steps below leaves this folder.
  await removeFolder(aside)
  const daemon = await start().catch(() => null)
  if (daemon !== null && (await isSound(daemon))) return daemon
  await daemon?.end()
  signal.throwIfAborted()
  if (await exists(home.data)) await rename(home.data, aside)
  try {
    const fresh = await start()
    await removeFolder(aside)
    return fresh
  } catch (error) {
    await removeFolder(home.data)
    if (await exists(aside)) await rename(aside, home.data)
    throw error
  }
}

/** The engine reads all layers to compute their size, so this finds damaged data. */
const isSound = (engine: Engine, signal: AbortSignal): Promise<boolean> =>
  engine.call({ method: 'GET', path: ['system', 'df'], signal }).then(
    () => true,
    () => false,
  )

/** Removes the least recently used data beyond the limit. Resolves with false on a failure. */
async function prune({ limits }: Pick<Parts, 'limits'>, engine: Engine, signal: AbortSignal): Promise<boolean> {
  const query = { all: true, 'keep-storage': Math.floor(limits.cacheBytes * keptShare) }
  return engine.call({ method: 'POST', path: ['build', 'prune'], query, signal, timeoutMs: 0 }).then(
    () => true,
    () => false,
  )
}

async function make(
  parts: Parts,
  { engine, ended }: BuildDaemon,
  release: Release,
  context: BuildContext & { readonly target: string | null },
  { output, signal: aborted, credentialsFor }: Options,
): Promise<BuildOutcome> {
  const signal = AbortSignal.any([aborted, ended])
  const { environment, daemon } = parts
  const { name, labels } = parts.imageOf(release)
  const confine = (from: string, at: string) =>
    [daemon.programs.bwrap, ...readerView(daemon.system, from, at), '--'] as const
  await copyBases(parts, engine, context.text, signal)
  const outcome = await buildImage(
    engine,
    {
      context: contextArchive(context, confine, signal),
      dockerfile: context.dockerfile,
      target: context.target,
      tag: name,
      labels,
      proxies: proxiesIn(environment),
      secrets: { ...environment, ...release.variables },
      credentialsFor,
    },
    (text) => output.appendFile(text),
    signal,
  )
  if (!outcome.ok) return outcome
  const forged = await forgedLabels(engine, name, labels)
  if (forged.length > 0) {
    const message = `The image has labels of the server's own: ${forged.join(', ')}. Remove them from the Dockerfile.`
    return { ok: false, message, code: 1, image: null }
  }
  await copyImage(engine, parts.engine, name, signal)
  // The next build finds the layers in the cache.
  await engine.call({ method: 'DELETE', path: ['images', name], query: { force: true }, signal, timeoutMs: 0 })
  return outcome
}

/** Copies the operator's images that the Dockerfile names, unless the daemon has them. */
async function copyBases(
  { engine, bases }: Pick<Parts, 'engine' | 'bases'>,
  daemon: Engine,
  dockerfile: string,
  signal: AbortSignal,
): Promise<void> {
  const named = imagesIn(dockerfile)
  for (const name of bases.filter((each) => named.has(fullName(each) ?? each))) {
    const [offered, there] = await Promise.all([inspectImage(engine, name), inspectImage(daemon, name)])
    if (offered !== null && offered.Id !== there?.Id) await copyImage(engine, daemon, name, signal)
  }
}

/** A Dockerfile can name its own front end (`# syntax=`), which may ignore the given labels. */
async function forgedLabels(
  engine: Pick<Engine, 'call'>,
  name: string,
  own: Readonly<Record<string, string>>,
): Promise<string[]> {
  const labels = (await inspectForeign(engine, name, 'the image'))?.Config?.Labels ?? {}
  return Object.entries(labels)
    .filter(([label, value]) => label.startsWith(labelPrefix) && own[label] !== value)
    .map(([label]) => label)
}

/** Throws the `RuntimeError` for an image that the build cannot get from its registry. */
async function assertImage(
  { image }: Extract<BuildOutcome, { readonly ok: false }>,
  { credentialsFor }: Pick<Options, 'credentialsFor'>,
): Promise<void> {
  if (image === null) return
  const { reference, reason } = image
  const error = imageProblem(
    reason,
    formatImageReference(reference),
    (await credentialsFor(reference.registry)) !== null,
  )
  if (error !== null) throw error
}

const groupLimits = ({ limits }: Pick<Parts, 'limits'>, release: Release) => ({
  memoryBytes: limits.memoryBytes + ownMemoryBytes,
  cpus: Math.max(leastBuildCpus, release.limits.cpus),
  processes: mostProcesses + ownProcesses,
})

async function exceeded(
  { limits }: Pick<Parts, 'limits'>,
  daemon: Pick<BuildDaemon, 'exceeded'>,
): Promise<ExceededLimit | null> {
  const limit = await daemon.exceeded()
  if (limit === null) return null
  return limit === 'memory'
    ? { code: 'out_of_memory', allowed: limits.memoryBytes, used: null }
    : { code: 'too_many_processes', allowed: mostProcesses, used: null }
}

const failed = (code: number | null, limit: ExceededLimit | null = null): Exit => ({
  code,
  signal: code === null ? 'SIGKILL' : null,
  exceeded: limit,
})

/**
 * Copies an image with its name from one engine to another, without a copy in between.
 *
 * @throws EngineError, or an Error when the target engine refuses the image
 */
async function copyImage(
  from: Pick<Engine, 'open'>,
  to: Pick<Engine, 'open'>,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  const archive = await from.open({ method: 'GET', path: ['images', name, 'get'], signal, timeoutMs: 0 })
  const answer = await to.open({
    method: 'POST',
    path: ['images', 'load'],
    query: { quiet: true },
    upload: archive,
    signal,
    timeoutMs: 0,
  })
  for await (const { error } of readJsonLines<{ readonly error?: string }>(answer)) {
    if (error !== undefined) throw new Error(`the engine does not take the image: ${error}`)
  }
  signal.throwIfAborted()
}
