import type { Command } from '../../platform/command.ts'
import { type CommandScope, commandEnvironment, searchPath } from '../environment.ts'
import type { Entry } from './confinement/confinement.ts'
import { type Launch, type LaunchOptions, launch } from './launch/launch.ts'
import { type LocalRelease, volumeFoldersOf } from './release/layout.ts'
import { instanceMarkVariable, markVariable, type ProcessMarks } from './release/marks.ts'
import type { Programs } from './toolchain/programs.ts'
import { RegistryError } from './toolchain/registry.ts'
import type { Toolchains } from './toolchain/toolchains.ts'

/** Starts a command of a release in its sources, with its environment and as its user. */
export type CommandStarter = (
  release: LocalRelease,
  command: Command,
  how: {
    readonly scope: CommandScope
    readonly entry: Entry
    readonly output: LaunchOptions['output']
    /** The name of the instance that the command is, or belongs to. */
    readonly unit?: string
  },
) => Promise<Launch>

/** @param fence called right before a process is started; nothing is started when it throws */
export function createCommandStarter(
  { node, enter: program }: Pick<Programs, 'node' | 'enter'>,
  toolchains: Pick<Toolchains, 'binOf'>,
  marks: Pick<ProcessMarks, 'markOf'>,
  fence: () => void,
): CommandStarter {
  const enter = { node, program }
  return async (release, command, { scope, entry, output, unit }) => {
    const bin = await toolchains.binOf(release.paths).catch(missingTool)
    if (typeof bin !== 'string') return bin
    const [name, ...args] = command.argv
    const place = { scope, bin, memoryBytes: entry.memoryBytes }
    return launch([name, ...args], {
      cwd: release.paths.source,
      env: {
        ...commandEnvironment({ ...release, volumeFolders: volumeFoldersOf(release) }, command, place),
        [markVariable]: marks.markOf(release.id),
        ...(unit === undefined ? {} : { [instanceMarkVariable]: marks.markOf(unit) }),
      },
      path: searchPath(release.paths, bin),
      user: release.user,
      output,
      entry,
      enter,
      fence,
    })
  }
}

/** A program that the release runs with was deleted, and cannot be had again: its commands cannot be run. */
function missingTool(error: unknown): Launch {
  if (!(error instanceof RegistryError)) throw error
  const message = `A program that this release runs with is not on the server any more, and the package registry could not be read (${error.message}).`
  return { ok: false, code: 127, message }
}
