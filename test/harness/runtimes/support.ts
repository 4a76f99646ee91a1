import { randomUUID } from 'node:crypto'
import { chmod, cp, mkdtemp, rm, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { vi } from 'vitest'
import { createLogStore, type LogStore, type LogStream } from '../../../server/src/logs/log-store.ts'
import { createMasker } from '../../../server/src/logs/masking.ts'
import type { Command } from '../../../server/src/platform/command.ts'
import { createCaches } from '../../../server/src/platform/disk/caches.ts'
import { findProcesses, killAll } from '../../../server/src/platform/processes.ts'
import type { OsUser } from '../../../server/src/platform/users.ts'
import { copyEnter } from '../../../server/src/runtimes/enter.ts'
import { type HostCapabilities, noCapabilities } from '../../../server/src/runtimes/process/confinement/capabilities.ts'
import { openMarks } from '../../../server/src/runtimes/process/marks.ts'
import { createProcessRuntime } from '../../../server/src/runtimes/process/process-runtime.ts'
import { pathsOf, type ReleasePaths } from '../../../server/src/runtimes/process/release-folders.ts'
import { prepareBin } from '../../../server/src/runtimes/process/toolchain/own-programs.ts'
import type { UidRange } from '../../../server/src/runtimes/process/users.ts'
import type { Exit, Handle, Observation, Release, Runtime } from '../../../server/src/runtimes/runtime.ts'
import { releasePorts } from '../ports.ts'
import { prefix } from '../temporary.ts'

/** The possible users of apps in this run. As root, apps also get separate users. */
export const identities: { name: string; uids: UidRange | null }[] = [
  ...(process.getuid?.() === 0 ? [{ name: 'a user of its own', uids: { from: 41_000, to: 49_999 } }] : []),
  { name: "the server's user", uids: null },
]

export type BuildOutcome = { ok: true } | ({ ok: false; command: string } & Exit)

/** A folder with a toolchain, releases and logs. Everything that it starts ends with it. */
export interface Bench {
  readonly directory: string
  readonly node: string
  /** Files and folders that sandboxed commands read in addition to the system's. */
  readonly programs: readonly string[]
  readonly logs: LogStore
  /**
   * Makes the runtime as a server does at its start: it has no memory of instances that another runtime has started.
   */
  newRuntime(options?: {
    readonly uids?: UidRange | null
    readonly host?: HostCapabilities
    readonly siteReader?: OsUser | null
  }): Runtime
  /**
   * Makes a release of a new app with the files of a fixture, sealed by this runtime. By default all apps share one
   * project.
   */
  release(
    runtime: Runtime,
    fixture: string,
    variables?: Record<string, string>,
    project?: Partial<Pick<Release, 'projectId' | 'internalName'>>,
  ): Promise<Release>
  pathsOf(release: Pick<Release, 'id' | 'appId'>): ReleasePaths & { readonly logs: string }
  /** Runs commands until one fails. */
  build(
    runtime: Runtime,
    release: Release,
    commands: readonly (readonly [string, ...string[]] | Command)[],
    signal?: AbortSignal,
  ): Promise<BuildOutcome>
  start(runtime: Runtime, release: Release, command: readonly [string, ...string[]] | Command): Promise<Handle>
  /** Returns the last lines of a log. */
  lines(release: Pick<Release, 'id' | 'appId'>, stream: LogStream, count?: number): Promise<string[]>
  processesOf(release: Pick<Release, 'id'>): Promise<number[]>
  dispose(): Promise<void>
}

export async function createBench(): Promise<Bench> {
  const directory = await mkdtemp(join(tmpdir(), prefix))
  await chmod(directory, 0o711)
  const { node, npmCli } = await provideToolchain(directory)
  const unused = '/nowhere.js'
  const bin = join(directory, 'bin')
  await prepareBin({
    directory: bin,
    node,
    npmCli,
    pnpmCli: unused,
    yarnCli: unused,
    modernYarnCli: unused,
  })
  const apps = join(directory, 'apps')
  const enter = await copyEnter(directory, 'enter')
  const marks = await openMarks(join(directory, 'process-marks'))
  const logs = createLogStore({ directory: join(directory, 'logs') })
  const releases: Release[] = []
  const logOf = ({ id, appId }: Pick<Release, 'id' | 'appId'>, stream: LogStream) => ({
    appId,
    deploymentId: id,
    stream,
  })
  const toolchains = {
    equip: async () => undefined,
    binOf: async () => bin,
    programsOf: async () => ({ bin, folders: [] }),
  }
  return {
    directory,
    node,
    programs: [bin, enter, node, dirname(dirname(npmCli))],
    logs,
    newRuntime: ({ uids = null, host = noCapabilities, siteReader = null } = {}) =>
      createProcessRuntime({
        apps: { directory: apps, maySetQuotas: false },
        users: { apps: uids, siteReader },
        programs: { node, enter, shared: [bin, node], toolchains },
        builds: { environment: { OPERATOR_SETTING: 'a mirror' }, memoryBytes: 256_000_000 },
        ports: releasePorts,
        host,
        caches: createCaches({ mostEachBytes: 1e9, mostAllBytes: 1e9, list: async () => [] }),
        marks,
        logger: { info: () => undefined, warn: () => undefined },
        fence: () => undefined,
      }),
    release: async (runtime, fixture, variables = {}, project = {}) => {
      const release: Release = {
        id: `dep_${randomUUID()}`,
        appId: `app_${randomUUID()}`,
        appNumber: releases.length + 1,
        projectId: 'proj_1',
        internalName: 'app',
        ...project,
        limits: { memoryBytes: 512_000_000, cpus: 1, diskBytes: 8e9 },
        variables,
      }
      releases.push(release)
      await cp(fixturePath(fixture), await runtime.builder.prepare(release), { recursive: true })
      await runtime.builder.seal(release, new AbortController().signal)
      return release
    },
    pathsOf: (release) => ({ ...pathsOf(apps, release), logs: join(directory, 'logs', release.appId, release.id) }),
    async build(runtime, release, commands, signal = new AbortController().signal) {
      await using output = await logs.open(logOf(release, 'build'))
      return await runtime.builder.build(release, { output, signal }, async (run): Promise<BuildOutcome> => {
        for (const command of commands.map(toCommand)) {
          const exit = await run(command, signal)
          if (exit.code !== 0) return { ok: false, command: command.argv.join(' '), ...exit }
        }
        return { ok: true }
      })
    },
    async start(runtime, release, command) {
      await using output = await logs.open(logOf(release, 'runtime'))
      return await runtime.instances.start(release, toCommand(command), output)
    },
    lines: (release, stream, count = 100) =>
      logs.tail(logOf(release, stream), { lines: count, masker: createMasker([]) }),
    processesOf: (release) => findProcesses(markerOf(release)),
    dispose: async () => {
      for (const release of releases) await killAll({ marker: markerOf(release) }, { graceMs: 0 })
      await rm(directory, { recursive: true, force: true })
    },
  }
}

const toCommand = (command: readonly [string, ...string[]] | Command): Command =>
  'argv' in command ? command : { argv: command }

export const fixturePath = (name: string): string =>
  fileURLToPath(new URL(`../../fixtures/apps/${name}`, import.meta.url))

/** Waits until the instance is in this state. */
export function untilState<S extends Observation['state']>(
  runtime: Runtime,
  handle: Handle,
  state: S,
): Promise<Extract<Observation, { state: S }>> {
  return vi.waitFor(
    async () => {
      const seen = await runtime.instances.observe(handle)
      if (seen.state !== state) throw new Error(`still ${JSON.stringify(seen)}`)
      return seen as Extract<Observation, { state: S }>
    },
    { timeout: 30_000, interval: 10 },
  )
}

const markerOf = (release: Pick<Release, 'id'>) => ({ name: 'FAIRLEAD_DEPLOYMENT_ID', value: release.id })

/** Provides Node and npm where every user can read them: as installed, or copied when the checkout is private. */
async function provideToolchain(directory: string): Promise<{ node: string; npmCli: string }> {
  const npm = dirname(createRequire(import.meta.url).resolve('npm/package.json'))
  const node = process.execPath
  if ((await isPublic(node)) && (await isPublic(npm))) return { node, npmCli: join(npm, 'bin', 'npm-cli.js') }
  await cp(node, join(directory, 'toolchain', 'node'))
  await cp(npm, join(directory, 'toolchain', 'npm'), { recursive: true, dereference: true })
  return {
    node: join(directory, 'toolchain', 'node'),
    npmCli: join(directory, 'toolchain', 'npm', 'bin', 'npm-cli.js'),
  }
}

async function isPublic(path: string): Promise<boolean> {
  for (let at = path; ; at = dirname(at)) {
    if (((await stat(at)).mode & 0o1) === 0) return false
    if (at === dirname(at)) return true
  }
}
