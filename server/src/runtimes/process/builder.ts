import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chown, type FileHandle, mkdir, writeFile } from 'node:fs/promises'
import { constants, setPriority } from 'node:os'
import { dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { endedOrAborted } from '../../platform/abort.ts'
import { sayAlive } from '../../platform/alive.ts'
import type { Command } from '../../platform/command.ts'
import type { Caches } from '../../platform/disk/caches.ts'
import { ensurePrivateFolder, SYSTEM_FOLDERS } from '../../platform/disk/folders.ts'
import { readOptional } from '../../platform/files.ts'
import { killAll, startProcess } from '../../platform/processes.ts'
import type { OsUser } from '../../platform/users.ts'
import { commandLine } from '../command-line.ts'
import { type Builder, type Exit, type Release, type ReleaseRef, type RunCommand, RuntimeError } from '../runtime.ts'
import type { Confinement } from './confinement/confinement.ts'
import type { CommandStarter } from './launch.ts'
import type { ProcessMarks } from './marks.ts'
import type { Quotas } from './quotas.ts'
import {
  giveOutputToUser,
  giveSourceToUser,
  type LocalRelease,
  makeAppFolders,
  makeSourceFolder,
  ownerOf,
  pathsOf,
  type ReleasePaths,
} from './release-folders.ts'
import { siteCommand } from './sites.ts'
import { readTools, writeTools } from './toolchain/record.ts'
import type { Toolchains } from './toolchain/toolchains.ts'

export interface BuilderParts {
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
  /** The operator's variables, such as a registry. */
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
  // Left-over processes would hold the files and the memory of the build for ever.
  const left = { marker: marks.markerOf(release.id, release.user?.uid), leaders: [launched.process] }
  await Promise.all([confinement.kill(release.id, 'build'), killAll(left, { graceMs: 0, fence: confinement.fence })])
  const exit = await launched.exited
  signal.throwIfAborted()
  const { memoryBytes } = release.limits
  return { ...exit, exceeded: exit.code === 0 ? null : await confinement.exceeded(release.id, 'build', memoryBytes) }
}

function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // The process has ended.
  }
}

interface CopyParts {
  readonly apps: string
  readonly locate: (release: Release) => Promise<LocalRelease>
  readonly confinement: Pick<Confinement, 'showsFolders'>
  readonly quotas: Pick<Quotas, 'make'>
}

async function copyRelease(
  { apps, locate, confinement, quotas }: CopyParts,
  from: ReleaseRef,
  release: Release,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted()
  if (!confinement.showsFolders) throw new RuntimeError('no_sandbox', noSandbox)
  const origin = pathsOf(apps, from)
  const uid = await ownerOf(origin)
  await quotas.make(pathsOf(apps, release))
  await makeSourceFolder(pathsOf(apps, release))
  const local = await locate(release)
  const { paths, user } = local
  await makeAppFolders(local)
  if (user !== null) await chown(paths.source, user.uid, user.gid)
  const reader = user === null || uid === undefined ? null : { uid, gid: uid }
  await copyFiles({ folder: origin.source, user: reader }, { folder: paths.source, user }, signal)
  await writeTools(paths, await readTools(origin))
  await writeOrigins(paths, originsOfCopy(await readOrigins(origin), origin.source))
}

const noSandbox =
  'A release is made of another one where the server has bubblewrap alone: what a build makes may name its folder. ' +
  "Ask the server's operator for it, or deploy the commit."

export interface OwnedFolder {
  readonly folder: string
  readonly user: OsUser | null
}

/**
 * Copies the content of a folder into an empty folder. Sparse files stay sparse, so a copy takes no more of the disk
 * than the original. The copy shares no file with the original. The reader has only the rights of the owner, and `tar`
 * follows no link: an app gains nothing when it replaces a folder by a link during the copy.
 */
async function copyFiles(from: OwnedFolder, to: OwnedFolder, signal: AbortSignal): Promise<void> {
  const reader = startTar(['--create', '--sparse', '--file=-', '.'], from, signal)
  const writer = startTar(['--extract', '--file=-', '--preserve-permissions'], to, signal)
  if (reader.stdout === null || writer.stdin === null) throw new Error('tar has no pipes')
  const [read, written] = [ended(reader), ended(writer)]
  // A failed writer ends the reader, too, and its status gives the reason.
  await pipeline(reader.stdout, writer.stdin).catch(() => undefined)
  const statuses = await Promise.all([read, written])
  signal.throwIfAborted()
  // With status 1, the app wrote or removed files during the copy.
  if (statuses[0] > 1 || statuses[1] !== 0) throw new Error(`tar ended with the codes ${statuses.join(' and ')}`)
}

function startTar(args: readonly string[], { folder, user }: OwnedFolder, signal: AbortSignal): ChildProcess {
  const stdio: ('pipe' | 'ignore')[] = args.includes('--create')
    ? ['ignore', 'pipe', 'ignore']
    : ['pipe', 'ignore', 'ignore']
  // Processes of the same user can read this environment; the server's may contain passwords.
  const env = { PATH: SYSTEM_FOLDERS.join(':') }
  return startProcess('tar', args, { cwd: folder, env, stdio, signal, ...(user === null ? {} : user) })
}

async function ended(child: ChildProcess): Promise<number> {
  const [code] = await once(child, 'close').catch(() => [null])
  return typeof code === 'number' ? code : 2
}

/**
 * Returns the folders that contained the files of a release at build time and in later copies; empty for a release that
 * still is where it was built. Build output may contain the path of its folder: programs in Python environments begin
 * with the path of their interpreter.
 */
export async function readOrigins({ origins }: Pick<ReleasePaths, 'origins'>): Promise<readonly string[]> {
  const text = await readOptional(origins)
  return text === undefined || text === '' ? [] : (JSON.parse(text) as string[])
}

/**
 * Limits the number of origins: each is a link in the sandbox of every command, and a release may be the last of a long
 * series of copies.
 */
const mostOrigins = 16

/** Returns the origins of a copy: the folder of the build, and the newest of the later folders. */
export function originsOfCopy(origins: readonly string[], folder: string): readonly string[] {
  const [built = folder, ...since] = [...origins, folder]
  return [built, ...since.slice(1 - mostOrigins)]
}

async function writeOrigins({ origins }: Pick<ReleasePaths, 'origins'>, folders: readonly string[]): Promise<void> {
  await mkdir(dirname(origins), { recursive: true, mode: 0o700 })
  await writeFile(origins, JSON.stringify(folders), { mode: 0o600 })
}
