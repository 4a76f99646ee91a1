import { chmod, type FileHandle, mkdir } from 'node:fs/promises'
import { constants, setPriority } from 'node:os'
import { join } from 'node:path'
import { openLog } from '../../logs/log-files.ts'
import { createMasker } from '../../logs/masking.ts'
import { findStart, readLines } from '../../logs/reader.ts'
import { createLogKeeper } from '../../logs/recorder.ts'
import { endedOrAborted } from '../../platform/abort.ts'
import { ensurePrivateFolder, removeFolder } from '../../platform/disk/folders.ts'
import type { Logger } from '../../platform/logger.ts'
import { isRunning, killAll, markedValues, type ProcessIdentity } from '../../platform/processes.ts'
import type { Command, Instance, LogPlace, LogStream, Release, Runner, StopOptions } from '../runtime.ts'
import type { Confinement, Entry } from './confinement.ts'
import {
  cacheOf,
  commandEnvironment,
  homeOf,
  RELEASE_MARKER,
  searchPath,
  sourceOf,
  temporaryFolderOf,
} from './environment.ts'
import { createInspector } from './inspect.ts'
import { type Exit, type Launch, launch } from './launch.ts'
import { createPorts } from './ports.ts'

export interface ProcessRunnerOptions {
  /** Absolute path of the Node that apps run on. */
  readonly node: string
  /** Absolute path of the folder that comes first on PATH: `node`, `npm`, `npx` (see `prepareBin`). */
  readonly bin: string
  /** The operator's variables for builds, such as a registry. */
  readonly buildEnvironment: Readonly<Record<string, string>>
  /** The ports that apps are given, both ends included. */
  readonly ports: { readonly from: number; readonly to: number }
  /** Holds builds and apps to their limits, and away from everything else. */
  readonly confinement: Confinement
  /** The bundled `enter.ts`; readable for the server. */
  readonly enter: string
  readonly logger: Pick<Logger, 'info'>
}

/** What the log of a build may take on the disk, and so much again what the app writes as it runs. */
const mostLogBytes = 16 * 1024 * 1024

/** What is known of an instance that this server process started. */
interface Child {
  readonly releaseId: string
  readonly process: ProcessIdentity
  readonly exited: Promise<Exit>
  hasExited: boolean
}

/**
 * Runs builds and apps as plain processes, each in a session of its own and as the release's user. The processes
 * outlive the server: their output goes straight into files, and an `Instance` is all that a later server needs.
 * Lines that an app writes are in the log as they are; secrets are the reader's to mask.
 */
export function createProcessRunner(options: ProcessRunnerOptions): Runner {
  const { logger, confinement } = options
  const enter = { node: process.execPath, program: options.enter }
  const ports = createPorts(options.ports)
  const children = new Map<string, Child>()
  const inspectRunning = createInspector()
  const logKeeper = createLogKeeper({ mostBytes: mostLogBytes })
  /** The logs of the apps that run, by their releases. */
  const runtimeLogs = new Map<string, string>()

  const run = async (
    release: Release,
    command: Command,
    log: FileHandle,
    entry: Entry,
    extra: { port: number } | { operator: Readonly<Record<string, string>> },
  ): Promise<Launch> => {
    const [name, ...args] = command.argv
    const launched = await launch([name === 'node' ? options.node : name, ...args], {
      cwd: sourceOf(release),
      env: commandEnvironment(release, command, { bin: options.bin, ...extra }),
      path: searchPath(release, options.bin),
      user: release.user,
      output: log.fd,
      entry,
      enter,
    })
    if (!launched.ok) await log.write(`${launched.message}\n`)
    return launched
  }

  const runBuildStep = async (
    release: Release,
    command: Command,
    log: FileHandle,
    signal: AbortSignal,
  ): Promise<Exit> => {
    signal.throwIfAborted()
    await log.write(`$ ${command.argv.join(' ')}\n`)
    const entry = await confinement.open(release, 'build')
    const launched = await run(release, command, log, entry, { operator: options.buildEnvironment })
    if (!launched.ok) return { code: launched.code, signal: null }
    lowerPriority(launched.process.pid)
    const leaveOff = confinement.watch(release, 'build', launched.process)
    try {
      await endedOrAborted(launched.exited, signal)
    } finally {
      leaveOff()
    }
    // What a build leaves behind would hold its files and its memory for ever.
    await confinement.kill(release.id, 'build')
    await killAll({ marker: markerOf(release.id), leaders: [launched.process] }, { graceMs: 0 })
    const exit = await launched.exited
    signal.throwIfAborted()
    return exit
  }

  /** Instances of this release that have ended; a crash loop must not fill the memory. */
  const forget = (releaseId: string): void => {
    for (const [key, child] of children) if (child.releaseId === releaseId && child.hasExited) children.delete(key)
  }

  /** Ends all of a release. The groups at last find what has cleared its environment and broken away. */
  const endAll = async (id: string, leaders: readonly ProcessIdentity[], options: StopOptions): Promise<void> => {
    if (options.graceMs === 0) await confinement.kill(id)
    try {
      const members = () => confinement.processesOf(id)
      await killAll({ marker: markerOf(id), leaders, members }, options)
    } finally {
      if (options.signal?.aborted !== true) await confinement.kill(id)
    }
  }

  const watchRuntimeLog = (release: Pick<Release, 'id' | 'logDirectory'>, lives: () => boolean): Promise<void> => {
    const path = logOf(release, 'runtime')
    runtimeLogs.set(release.id, path)
    return logKeeper.watch(path, lives)
  }

  /** Notes the last words of an app that has been ended: the server may stop before it looks again. */
  const noteLastWords = async (releaseId: string): Promise<void> => {
    const path = runtimeLogs.get(releaseId)
    runtimeLogs.delete(releaseId)
    if (path !== undefined) await logKeeper.look(path)
  }

  const halt: Runner['halt'] = async ({ id, directory }, options = { graceMs: 0 }) => {
    const own = [...children.values()].filter((child) => child.releaseId === id)
    const leaders = own.map((child) => child.process)
    await endAll(id, leaders, options)
    if (options.signal?.aborted === true) return
    await Promise.all(own.map((child) => child.exited))
    await noteLastWords(id)
    forget(id)
    // A release at rest is closed to the others of its app, which run as the same user.
    await chmod(directory, 0o700).catch(ignoreMissing)
  }

  return {
    build: async (release, plan, { signal }) => {
      signal.throwIfAborted()
      await prepareFolders(release)
      await ensurePrivateFolder(cacheOf(release), release.user)
      const log = await openLog(logOf(release, 'build'), release.user)
      let isBuilding = true
      try {
        await logKeeper.watch(logOf(release, 'build'), () => isBuilding)
        if (confinement.warning !== null) await log.write(`warning: ${confinement.warning}\n`)
        for (const command of plan.build) {
          const exit = await runBuildStep(release, command, log, signal)
          if (exit.code === 0) continue
          const exceeded = await confinement.exceeded(release.id, 'build')
          return { ok: false, command: command.argv.join(' '), ...exit, exceeded }
        }
        return { ok: true }
      } finally {
        isBuilding = false
        await logKeeper.look(logOf(release, 'build'))
        await log.close()
      }
    },

    start: async (release, plan) => {
      forget(release.id)
      await prepareFolders(release)
      await chmod(release.directory, 0o711)
      const log = await openLog(logOf(release, 'runtime'), release.user)
      const port = await ports.reserve().catch(async (error: unknown) => {
        await log.close()
        throw error
      })
      let lives = () => true
      try {
        await watchRuntimeLog(release, () => lives())
        const entry = await confinement.open(release, 'app')
        const launched = await run(release, plan.start, log, entry, { port })
        const process = launched.ok ? launched.process : NO_PROCESS
        const exited = launched.ok ? launched.exited : Promise.resolve({ code: launched.code, signal: null })
        const instance = { releaseId: release.id, ...process, port }
        lives = () => isRunning(process)
        const child: Child = { releaseId: release.id, process, exited, hasExited: false }
        children.set(keyOf(instance), child)
        if (launched.ok) launched.unref()
        const leaveOff = launched.ok ? confinement.watch(release, 'app', process) : () => undefined
        void exited.then((exit) => {
          leaveOff()
          child.hasExited = true
          ports.release(port)
          logger.info({ deployment: release.id, pid: process.pid, ...exit }, 'app exited')
        })
        return instance
      } catch (error) {
        lives = () => false
        ports.release(port)
        throw error
      } finally {
        await log.close()
      }
    },

    inspect: async (instance) => {
      const state = await inspectRunning(instance)
      if (state !== null) return state
      const exit = await children.get(keyOf(instance))?.exited
      const exceeded = await confinement.exceeded(instance.releaseId, 'app')
      return { state: 'exited', ...(exit ?? { code: null, signal: null }), exceeded }
    },

    lives: isRunning,

    stop: async (instance, options) => {
      await endAll(instance.releaseId, [instance], options)
      if (options.signal?.aborted === true) return
      await children.get(keyOf(instance))?.exited
      await noteLastWords(instance.releaseId)
    },

    logs: async (release, stream, { lines }) => {
      const path = logOf(release, stream)
      const masker = createMasker(Object.values(release.variables))
      const extent = await logKeeper.look(path)
      const { position } = await findStart(path, extent, { count: lines })
      const last: string[] = []
      for (let from = position, before = -1; from !== before; ) {
        const part = await readLines(path, extent, { from, masker, isFinal: true })
        last.push(...part.lines.map(({ text }) => text))
        before = from
        from = part.next
      }
      return last
    },
    logStart: async (release, stream, { lines, since }) => {
      const path = logOf(release, stream)
      const extent = await logKeeper.look(path)
      return { ...(await findStart(path, extent, { count: lines, since })), end: extent.end }
    },
    readLog: async (release, stream, wanted) => {
      const path = logOf(release, stream)
      return readLines(path, await logKeeper.look(path), wanted)
    },
    async adopt(release, instance) {
      confinement.watch(release, 'app', instance)
      await watchRuntimeLog(release, () => isRunning(instance))
    },

    halt,

    remove: async (release) => {
      await halt(release)
      await confinement.remove(release.id)
      await removeFolder(release.directory)
    },

    withProcesses: async () => new Set([...(await markedValues(RELEASE_MARKER)), ...(await confinement.occupied())]),
  }
}

/** Stands for an app whose command could not be run: no process ever has pid 0, so it counts as exited. */
const NO_PROCESS: ProcessIdentity = { pid: 0, startTime: '' }

const markerOf = (releaseId: string) => ({ name: RELEASE_MARKER, value: releaseId })
const keyOf = (instance: Instance): string => `${instance.releaseId}:${instance.pid}:${instance.startTime}`
const logOf = ({ logDirectory }: LogPlace, stream: LogStream): string => join(logDirectory, `${stream}.log`)

async function prepareFolders(release: Release): Promise<void> {
  await mkdir(release.logDirectory, { recursive: true, mode: 0o700 })
  await ensurePrivateFolder(homeOf(release), release.user)
  await ensurePrivateFolder(temporaryFolderOf(release), release.user)
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}

/** A build gives way to the apps that run. */
function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // It has already ended.
  }
}
