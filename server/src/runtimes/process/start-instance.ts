import type { FileHandle } from 'node:fs/promises'
import type { Command } from '../../platform/command.ts'
import type { Logger } from '../../platform/logger.ts'
import { bootId, type ProcessIdentity } from '../../platform/processes.ts'
import type { Children } from './children.ts'
import type { CommandStarter } from './commands.ts'
import type { Confinement } from './confinement/confinement.ts'
import type { ExitStatus } from './launch/launch.ts'
import type { Ports } from './launch/ports.ts'
import { giveOutputToUser } from './output.ts'
import { makeAppFolders, openToApp } from './release/folders.ts'
import type { LocalRelease } from './release/layout.ts'
import type { LocalInstance } from './release/local-instance.ts'

export interface StartParts {
  readonly children: Pick<Children, 'add' | 'forgetEnded'>
  readonly confinement: Pick<Confinement, 'open' | 'watch'>
  readonly startCommand: CommandStarter
  readonly ports: Ports
  readonly logger: Pick<Logger, 'info'>
}

/** Starts a release on a free port. Resolves as soon as its process exists. */
export async function startInstance(
  parts: StartParts,
  release: LocalRelease,
  command: Command,
  output: FileHandle,
): Promise<LocalInstance> {
  const { children, ports } = parts
  children.forgetEnded(release.id)
  await makeAppFolders(release)
  await openToApp(release.paths)
  await giveOutputToUser(output, release.user)
  const port = await ports.reserve()
  try {
    const { process, exited } = await startProcess(parts, release, command, output, port)
    children.add({ releaseId: release.id, process, exited })
    void exited.then((exit) => {
      ports.release(port)
      parts.logger.info({ deployment: release.id, pid: process.pid, ...exit }, 'app exited')
    })
    const boot = bootId()
    return {
      releaseId: release.id,
      ...process,
      ...(boot === null ? {} : { boot }),
      port,
      memoryBytes: release.limits.memoryBytes,
      ...(release.user === null ? {} : { uid: release.user.uid }),
    }
  } catch (error) {
    ports.release(port)
    throw error
  }
}

/** Stands for a command that could not be run: no process ever has pid 0, so that it counts as exited. */
const noProcess: ProcessIdentity = { pid: 0, startTime: '' }

async function startProcess(
  { confinement, startCommand }: StartParts,
  release: LocalRelease,
  command: Command,
  output: FileHandle,
  port: number,
): Promise<{ process: ProcessIdentity; exited: Promise<ExitStatus> }> {
  const entry = await confinement.open(release, 'app')
  const launched = await startCommand(release, command, { scope: { kind: 'app', port }, entry, output: output.fd })
  if (!launched.ok) {
    await output.write(`${launched.message}\n`)
    return { process: noProcess, exited: Promise.resolve({ code: launched.code, signal: null }) }
  }
  // The app outlives the server.
  launched.child.unref()
  const endWatch = confinement.watch(release, 'app', launched.process)
  void launched.exited.then(endWatch)
  return launched
}
