import type { FileHandle } from 'node:fs/promises'
import { constants, setPriority } from 'node:os'
import { endedOrAborted } from '../../platform/abort.ts'
import { sayAlive } from '../../platform/alive.ts'
import type { Command } from '../../platform/command.ts'
import type { Caches } from '../../platform/disk/caches.ts'
import { ensurePrivateFolder } from '../../platform/disk/folders.ts'
import { killAll } from '../../platform/processes.ts'
import { commandLine } from '../command-line.ts'
import type { Builder, Exit, Release, RunCommand } from '../runtime.ts'
import type { CommandStarter } from './commands.ts'
import type { Confinement } from './confinement/confinement.ts'
import { copyRelease } from './copy-release.ts'
import { giveOutputToUser } from './output.ts'
import { giveSourceToUser, makeAppFolders, makeSourceFolder } from './release/folders.ts'
import { type LocalRelease, pathsOf } from './release/layout.ts'
import type { ProcessMarks } from './release/marks.ts'
import type { Quotas } from './release/quotas.ts'
import { siteCommand } from './sites/folder.ts'
import type { Toolchains } from './toolchain/toolchains.ts'

export interface BuilderParts {
  /** The folder of all apps. */
  readonly apps: string
  readonly locate: (release: Release) => Promise<LocalRelease>
  readonly caches: Pick<Caches, 'use' | 'isInUse'>
  readonly confinement: Pick<
    Confinement,
    'open' | 'prepare' | 'watch' | 'exceeded' | 'kill' | 'warning' | 'fence' | 'showsFolders'
  >
  readonly startCommand: CommandStarter
  readonly toolchains: Pick<Toolchains, 'equip'>
  readonly marks: Pick<ProcessMarks, 'markerOf'>
  readonly quotas: Pick<Quotas, 'make' | 'makeCache'>
  /** The operator's variables for builds, such as a registry. */
  readonly buildEnvironment: Readonly<Record<string, string>>
}

export function createBuilder(parts: BuilderParts): Builder {
  const { apps, locate, caches, confinement } = parts
  const cacheOf = (appId: string) => pathsOf(apps, { id: '', appId }).cache

  return {
    copy: (from, release, signal) => copyRelease(parts, from, release, signal),

    async prepare(release) {
      const paths = pathsOf(apps, release)
      await parts.quotas.make(paths)
      await makeSourceFolder(paths)
      return paths.source
    },

    async seal(release, signal, { builds, start } = { builds: false, start: null }) {
      if (builds) confinement.prepare(release.id, 'build')
      if (start !== null && siteCommand(start) === null) confinement.prepare(release.id, 'app')
      await giveSourceToUser(await locate(release), signal)
    },

    async build(release, { output, signal, toolchain = [] }, steps) {
      signal.throwIfAborted()
      return caches.use(pathsOf(apps, release).cache, signal, async () => {
        const local = await locate(release)
        await makeAppFolders(local)
        await parts.quotas.makeCache(local)
        await ensurePrivateFolder(local.paths.cache, local.user)
        await giveOutputToUser(output, local.user)
        if (confinement.warning !== null) await output.write(`warning: ${confinement.warning}\n`)
        const say = (line: string) => output.write(`${line}\n`)
        if (toolchain !== 'kept') {
          const what = 'getting the programs that the app asks for'
          await sayAlive({ what, say }, () => parts.toolchains.equip(local.paths, toolchain, { signal, say }))
        }
        return withCommands((command, limit) => runStep(parts, local, command, output, limit), signal, steps)
      })
    },

    isBuilding: (appId) => caches.isInUse(cacheOf(appId)),
  }
}

/** Runs `steps`, and ends those of its commands that it did not wait for. */
async function withCommands<T>(
  run: RunCommand,
  signal: AbortSignal,
  steps: (run: RunCommand) => Promise<T>,
): Promise<T> {
  const settled = new AbortController()
  const running = new Set<Promise<unknown>>()
  const runTracked: RunCommand = async (command, limit) => {
    const exit = run(command, AbortSignal.any([signal, limit, settled.signal]))
    running.add(exit)
    return exit.finally(() => running.delete(exit))
  }
  try {
    return await steps(runTracked)
  } finally {
    settled.abort(new Error('the build is over'))
    await Promise.allSettled(running)
  }
}

async function runStep(
  { confinement, startCommand, buildEnvironment, marks }: BuilderParts,
  release: LocalRelease,
  command: Command,
  output: FileHandle,
  signal: AbortSignal,
): Promise<Exit> {
  signal.throwIfAborted()
  await output.write(`$ ${commandLine(command.argv)}\n`)
  const entry = await confinement.open(release, 'build')
  const scope = { kind: 'build', operator: buildEnvironment } as const
  const launched = await startCommand(release, command, { scope, entry, output: output.fd })
  if (!launched.ok) {
    await output.write(`${launched.message}\n`)
    return { code: launched.code, signal: null, exceeded: null }
  }
  lowerPriority(launched.process.pid)
  const endWatch = confinement.watch(release, 'build', launched.process)
  try {
    await endedOrAborted(launched.exited, signal)
  } finally {
    endWatch()
  }
  // Processes that a build leaves behind would hold its files and its memory for ever.
  const left = { marker: marks.markerOf(release.id, release.user?.uid), leaders: [launched.process] }
  await Promise.all([confinement.kill(release.id, 'build'), killAll(left, { graceMs: 0, fence: confinement.fence })])
  const exit = await launched.exited
  signal.throwIfAborted()
  const { memoryBytes } = release.limits
  return { ...exit, exceeded: exit.code === 0 ? null : await confinement.exceeded(release.id, 'build', memoryBytes) }
}

/** Lets apps that run come before a build. */
function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // It has already ended.
  }
}
