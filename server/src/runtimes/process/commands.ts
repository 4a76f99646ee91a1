import type { Command } from '../../platform/command.ts'
import type { Entry } from './confinement/confinement.ts'
import { type Launch, type LaunchOptions, launch } from './launch/launch.ts'
import { type CommandScope, commandEnvironment, searchPath } from './release/environment.ts'
import type { LocalRelease } from './release/layout.ts'
import { enterProgram, type Programs } from './toolchain/programs.ts'

/** Starts a command of a release in its sources, with its environment and as its user. */
export type CommandStarter = (
  release: LocalRelease,
  command: Command,
  how: { readonly scope: CommandScope; readonly entry: Entry; readonly output: LaunchOptions['output'] },
) => Promise<Launch>

/** @param fence called right before a process is started; nothing is started when it throws */
export function createCommandStarter({ node, bin }: Pick<Programs, 'node' | 'bin'>, fence: () => void): CommandStarter {
  const enter = { node: process.execPath, program: enterProgram }
  return (release, command, { scope, entry, output }) => {
    const [name, ...args] = command.argv
    return launch([name === 'node' ? node : name, ...args], {
      cwd: release.paths.source,
      env: commandEnvironment(release, command, scope, bin),
      path: searchPath(release.paths, bin),
      user: release.user,
      output,
      entry,
      enter,
      fence,
    })
  }
}
