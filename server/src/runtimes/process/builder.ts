import type { FileHandle } from 'node:fs/promises'
import { constants, setPriority } from 'node:os'
import { endedOrAborted } from '../../platform/abort.ts'
import type { Command } from '../../platform/command.ts'
import type { Caches } from '../../platform/disk/caches.ts'
import { ensurePrivateFolder } from '../../platform/disk/folders.ts'
import { killAll } from '../../platform/processes.ts'
import type { Builder, Exit, Release, RunCommand } from '../runtime.ts'
import type { CommandStarter } from './commands.ts'
import type { Confinement } from './confinement/confinement.ts'
import { markerOf } from './end-release.ts'
import { giveOutputToUser } from './output.ts'
import { giveSourceToUser, makeAppFolders, makeSourceFolder } from './release/folders.ts'
import { type LocalRelease, pathsOf } from './release/layout.ts'

export interface BuilderParts {
  /** The folder of all apps. */
  readonly apps: string
  readonly locate: (release: Release) => LocalRelease
  readonly caches: Pick<Caches, 'use' | 'isInUse'>
  readonly confinement: Pick<Confinement, 'open' | 'watch' | 'exceeded' | 'kill' | 'warning' | 'fence'>
  readonly startCommand: CommandStarter
  /** The operator's variables for builds, such as a registry. */
  readonly buildEnvironment: Readonly<Record<string, string>>
}

export function createBuilder(parts: BuilderParts): Builder {
  const { apps, locate, caches, confinement } = parts
  const cacheOf = (appId: string) => pathsOf(apps, { id: '', appId }).cache

  return {
    async prepare(release) {
      const paths = pathsOf(apps, release)
      await makeSourceFolder(paths)
      return paths.source
    },

    seal: async (release, signal) => giveSourceToUser(locate(release), signal),

    async build(release, { output, signal }, steps) {
      signal.throwIfAborted()
      const local = locate(release)
      return caches.use(local.paths.cache, signal, async () => {
        await makeAppFolders(local)
        await ensurePrivateFolder(local.paths.cache, local.user)
        await giveOutputToUser(output, local.user)
        if (confinement.warning !== null) await output.write(`warning: ${confinement.warning}\n`)
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
  { confinement, startCommand, buildEnvironment }: BuilderParts,
  release: LocalRelease,
  command: Command,
  output: FileHandle,
  signal: AbortSignal,
): Promise<Exit> {
  signal.throwIfAborted()
  await output.write(`$ ${command.argv.join(' ')}\n`)
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
  await confinement.kill(release.id, 'build')
  await killAll(
    { marker: markerOf(release.id, release.user?.uid), leaders: [launched.process] },
    { graceMs: 0, fence: confinement.fence },
  )
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
