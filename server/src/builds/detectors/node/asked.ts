import type { Command } from '../../../platform/command.ts'
import type { ToolRequest } from '../../../platform/toolchain.ts'
import { readPackageJson } from '../../source/package-json.ts'
import type { DetectorSource } from '../detector.ts'
import { askedManager, askedRuntime, calledRuntimes } from './managers-asked.ts'
import type { NodeApp } from './start.ts'
import { askedNode, type VersionSource } from './versions.ts'

/**
 * Returns the versions that the repository asks for, of Node and of the package manager, and other runtimes that it calls.
 *
 * @param start the command that starts the app, which may be of no script's
 */
export function askedTools(
  { repository, app, settings }: DetectorSource,
  { package: manifest, installing }: NodeApp,
  start: Command | null,
): { readonly toolchain: readonly ToolRequest[]; readonly notes: readonly string[] } {
  const top = { files: repository, manifest: readPackageJson(repository) }
  const sources: VersionSource[] = [{ files: app, manifest }, ...(settings.root === '.' ? [] : [top])]
  const { request, notes } = askedNode(sources)
  const manager = askedManager(sources, installing, repository)
  const commands = [settings.build, settings.start, start?.argv].flatMap((words) =>
    words === undefined ? [] : [words.join(' ')],
  )
  const called = calledRuntimes(manifest.scripts, [...commands, app.read('Procfile') ?? ''])
  const runtimes = called.map((tool) => askedRuntime(sources, tool, 'the commands that run'))
  const requests = [request, manager, ...runtimes].filter((each) => each !== null)
  // The first request for a tool counts.
  const toolchain = requests.filter(({ tool }, at) => requests.findIndex((each) => each.tool === tool) === at)
  return { toolchain, notes }
}
