import { once } from 'node:events'
import { cp, type FileHandle, mkdir, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { endedOrAborted } from '../../../server/src/platform/abort.ts'
import { sizeOf } from '../../../server/src/platform/disk/tree-size.ts'
import { exists } from '../../../server/src/platform/files.ts'
import { createKeyedLock } from '../../../server/src/platform/keyed-lock.ts'
import { staticServerName } from '../../../server/src/platform/toolchain.ts'
import {
  type Builder,
  type Handle,
  type Instances,
  type Observation,
  type Release,
  type ReleaseRef,
  type ReleaseStore,
  type Runtime,
  RuntimeError,
  type StopOptions,
} from '../../../server/src/runtimes/runtime.ts'
import { freePort } from '../ports.ts'
import { type ExampleProcess, startExample } from './example-process.ts'

/*
 * A runtime that differs from processes as much as possible: its "machine" is an object in the memory of the test, its
 * instances are HTTP servers in the test's process, and its handles are numbers. It shows that the interface does not
 * depend on pids, users or control groups.
 */

interface Started {
  readonly releaseId: string
  readonly port: number
  readonly process: ExampleProcess
  /** The folder of a static site. */
  readonly folder?: string
}

/** Stands for the machine, which outlives each runtime. */
export interface ExampleMachine {
  /** A folder for releases: `<app>/<release>`. */
  readonly directory: string
  readonly started: Started[]
}

export type StartProgram = typeof startExample

/**
 * @param options.name the name of the runtime
 * @param options.start starts the commands of releases
 */
export function createExampleRuntime(
  machine: ExampleMachine,
  { name = 'example', start = startExample }: { readonly name?: string; readonly start?: StartProgram } = {},
): Runtime {
  const end = (of: (each: Started) => boolean, options: StopOptions) =>
    Promise.all(machine.started.filter(of).map(({ process }) => endProcess(process, options)))
  return {
    name,
    capabilities: {
      warning: null,
      terminal: false,
      copies: true,
      details: { instances: 'in the process of the test' },
    },
    builder: createBuilder(machine, start),
    instances: createInstances(machine, { name, start }, async (index, options) => {
      await end((each) => each === machine.started[index], options)
    }),
    releases: createReleases(machine, async ({ id }, options) => {
      await end((each) => each.releaseId === id, options)
    }),
    images: null,
  }
}

/** The folder of a release on the machine. */
export const folderOf = ({ directory }: ExampleMachine, { appId, id }: ReleaseRef): string => join(directory, appId, id)

function createBuilder(machine: ExampleMachine, start: StartProgram): Builder {
  const lock = createKeyedLock()
  const building = new Map<string, number>()
  const count = (appId: string, by: number) => building.set(appId, (building.get(appId) ?? 0) + by)
  return {
    async copy(from, release, signal) {
      signal.throwIfAborted()
      await cp(folderOf(machine, from), folderOf(machine, release), { recursive: true })
    },
    async prepare(release) {
      const directory = folderOf(machine, release)
      await rm(directory, { recursive: true, force: true })
      await mkdir(directory, { recursive: true })
      return directory
    },
    seal: async () => undefined,
    async build(release, { output, signal }, steps) {
      const all: ExampleProcess[] = []
      count(release.appId, 1)
      try {
        return await lock(
          release.appId,
          () =>
            steps(async ({ argv }, ofCommand) => {
              const limit = AbortSignal.any([signal, ofCommand])
              limit.throwIfAborted()
              const process = startIn(start, machine, release, argv, output)
              all.push(process)
              machine.started.push({ releaseId: release.id, port: 0, process })
              await endedOrAborted(process.exited, limit)
              process.kill()
              limit.throwIfAborted()
              return process.exited
            }),
          signal,
        )
      } finally {
        for (const process of all) process.kill()
        count(release.appId, -1)
      }
    },
    isBuilding: (appId) => (building.get(appId) ?? 0) > 0,
  }
}

function startIn(
  start: StartProgram,
  machine: ExampleMachine,
  release: Release,
  argv: readonly string[],
  output: FileHandle,
  more: Readonly<Record<string, string>> = {},
): ExampleProcess {
  const { PORT: _, ...variables } = release.variables
  const print = async (text: string) => {
    await output.write(text)
  }
  return start(argv, {
    variables: { ...variables, ...more },
    directory: folderOf(machine, release),
    stdin: null,
    print,
    printError: print,
  })
}

function createInstances(
  machine: ExampleMachine,
  { name, start }: { readonly name: string; readonly start: StartProgram },
  stop: (index: number, options: StopOptions) => Promise<void>,
): Instances {
  const indexOf = (handle: Handle) => Number(handle.data['index'])
  const find = (handle: Handle): Started => {
    const found = machine.started[indexOf(handle)]
    if (found === undefined) throw new Error('there is no such instance')
    return found
  }
  return {
    async start(release, { argv }, output) {
      if (argv[0] === staticServerName) {
        const process = startIn(start, machine, release, [staticServerName], output)
        const folder = join(folderOf(machine, release), argv[1] ?? '')
        machine.started.push({ releaseId: release.id, port: 0, process, folder })
        return { runtime: name, data: { index: machine.started.length - 1 } }
      }
      const port = await freePort()
      // The instance writes to it as long as it lives, and the caller closes its handle.
      const own = await reopen(output)
      const process = startIn(start, machine, release, argv, own, { PORT: String(port) })
      void process.exited.finally(() => own.close())
      machine.started.push({ releaseId: release.id, port, process })
      return { runtime: name, data: { index: machine.started.length - 1 } }
    },
    observe: async (handle) => observe(find(handle)),
    serveAt: async (handle) => handle,
    watch(handle, onExit) {
      let isWatching = true
      void find(handle).process.exited.then(() => isWatching && onExit())
      return () => {
        isWatching = false
      }
    },
    adopt: async () => undefined,
    stop: (handle, options) => stop(indexOf(handle), options),
    async attach(release, handle, { argv, tty, stdin, stdout, stderr, signal }) {
      if (tty !== null) throw new RuntimeError('no_terminal', 'Run the command without a terminal.')
      signal.throwIfAborted()
      const process = start(argv, {
        variables: { ...release.variables, PORT: String(find(handle).port) },
        directory: folderOf(machine, release),
        stdin,
        print: writeTo(stdout),
        printError: writeTo(stderr),
      })
      await endedOrAborted(process.exited, signal)
      process.terminate()
      return process.exited
    },
    async usage(handle) {
      const { memoryBytes, cpuSeconds, processes } = usageOfThisProcess()
      if (!find(handle).process.isRunning()) return { memoryBytes: 0, cpuSeconds: 0, processes: 0 }
      return { memoryBytes, cpuSeconds, processes }
    },
  }
}

const usageOfThisProcess = () => ({
  memoryBytes: process.memoryUsage.rss(),
  cpuSeconds: process.cpuUsage().user / 1e6,
  processes: 1,
})

async function observe({ port, process, folder }: Started): Promise<Observation> {
  if (!process.isRunning()) return { state: 'exited', ...(await process.exited) }
  if (folder !== undefined) return { state: 'listening', endpoints: [{ folder }] }
  if (process.ports.has(port)) return { state: 'listening', endpoints: [{ host: '127.0.0.1', port }] }
  if (process.ports.size === 0) return { state: 'starting', port }
  return { state: 'wrong_port', port, ports: [...process.ports], servable: null }
}

function createReleases(
  machine: ExampleMachine,
  end: (release: ReleaseRef, options: StopOptions) => Promise<void>,
): ReleaseStore {
  const { directory, started } = machine
  const running = () => started.filter(({ process }) => process.isRunning())
  return {
    halt: (release, options = { graceMs: 0 }) => end(release, options),
    async remove(release) {
      await end(release, { graceMs: 0 })
      await rm(folderOf(machine, release), { recursive: true, force: true })
    },
    isMade: (release) => exists(folderOf(machine, release)),
    removeApp: (appId) => rm(join(directory, appId), { recursive: true, force: true }),
    async list() {
      const apps = await readdir(directory)
      return {
        apps: await Promise.all(apps.map(async (id) => ({ id, releases: await readdir(join(directory, id)) }))),
        running: new Set(running().map(({ releaseId }) => releaseId)),
        instances: new Map(
          [...Map.groupBy(running(), ({ releaseId }) => releaseId)].map(([id, all]) => [id, all.length]),
        ),
      }
    },
    async endOthers({ id }, known) {
      const kept = new Set(known.map(({ data }) => started[Number(data['index'])]))
      const others = started.filter((each) => each.releaseId === id && !kept.has(each))
      await Promise.all(others.map(({ process }) => endProcess(process, { graceMs: 0 })))
    },
    diskUsage: async (release, part, enough) => (part !== 'shared' ? sizeOf([folderOf(machine, release)], enough) : 0),
  }
}

async function endProcess(process: ExampleProcess, { graceMs, signal }: StopOptions): Promise<void> {
  if (!process.isRunning()) return
  if (graceMs > 0) {
    process.terminate()
    const limit = AbortSignal.any([AbortSignal.timeout(graceMs), ...(signal === undefined ? [] : [signal])])
    await endedOrAborted(process.exited, limit)
  }
  if (signal?.aborted !== true) process.kill()
}

/** Opens the same file again, like a separate descriptor in a child process. */
const reopen = (output: FileHandle): Promise<FileHandle> => open(`/proc/self/fd/${output.fd}`, 'a')

const writeTo =
  (stream: Writable) =>
  async (text: string): Promise<void> => {
    if (!stream.write(text)) await once(stream, 'drain')
  }
