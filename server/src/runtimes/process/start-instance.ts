import type { FileHandle } from 'node:fs/promises'
import type { Command } from '../../platform/command.ts'
import type { Logger } from '../../platform/logger.ts'
import { bootId, type ProcessIdentity } from '../../platform/processes.ts'
import type { Children } from './children.ts'
import type { CommandStarter } from './commands.ts'
import type { Confinement, Entry } from './confinement/confinement.ts'
import type { ExitStatus } from './launch/launch.ts'
import type { Ports } from './network/ports.ts'
import { giveOutputToUser } from './output.ts'
import { makeAppFolders, openToApp } from './release/folders.ts'
import type { LocalRelease } from './release/layout.ts'
import { type LocalInstance, noProcess } from './release/local-instance.ts'
import type { Quotas } from './release/quotas.ts'

export interface StartParts {
  readonly children: Pick<Children, 'add' | 'forgetEnded'>
  readonly confinement: Pick<Confinement, 'open' | 'watch'>
  readonly startCommand: CommandStarter
  readonly ports: Ports
  readonly quotas: Pick<Quotas, 'hold'>
  /** The `PORT` of apps that have a network of their own. */
  readonly portInside: number
  readonly logger: Pick<Logger, 'info'>
}

/**
 * Starts an instance of a release in a network of its own, or on a free port of this machine. Resolves as soon as its
 * process exists.
 *
 * @param unit the name of the instance; an earlier one of this name is ended
 */
export async function startInstance(
  parts: StartParts,
  release: LocalRelease,
  command: Command,
  output: FileHandle,
  unit: string,
): Promise<LocalInstance> {
  const { children, confinement, ports, portInside } = parts
  children.forgetEnded(release.id, unit)
  await makeAppFolders(release)
  await parts.quotas.hold(release)
  await openToApp(release.paths)
  await giveOutputToUser(output, release.user)
  const entry = await confinement.open({ ...release, id: unit }, 'app')
  const { address, forward } = entry
  const isShared = address === null && forward === null
  const port = isShared ? await ports.reserve() : (forward?.ipv4 ?? portInside)
  try {
    const { process, exited } = await startProcess(parts, release, command, { entry, output, port, unit })
    children.add({ releaseId: release.id, unit, process, exited })
    void exited.then((exit) => {
      if (isShared) ports.release(port)
      parts.logger.info({ deployment: release.id, pid: process.pid, ...exit }, 'app exited')
    })
    const boot = bootId()
    return {
      releaseId: release.id,
      unit,
      ...process,
      ...(boot === null ? {} : { boot }),
      port,
      ...(address === null ? {} : { address }),
      ...(forward === null ? {} : { holder: forward.holder }),
      ...(typeof forward?.ipv6 === 'number' ? { ipv6Port: forward.ipv6 } : {}),
      memoryBytes: release.limits.memoryBytes,
      ...(release.user === null ? {} : { uid: release.user.uid }),
    }
  } catch (error) {
    if (isShared) ports.release(port)
    throw error
  }
}

async function startProcess(
  { confinement, startCommand }: StartParts,
  release: LocalRelease,
  command: Command,
  how: { readonly entry: Entry; readonly output: FileHandle; readonly port: number; readonly unit: string },
): Promise<{ process: ProcessIdentity; exited: Promise<ExitStatus> }> {
  const { entry, output, port, unit } = how
  const launched = await startCommand(release, command, {
    scope: { kind: 'app', port },
    entry,
    output: output.fd,
    unit,
  })
  if (!launched.ok) {
    await output.write(`${launched.message}\n`)
    // A command that could not be run counts as exited.
    return { process: noProcess, exited: Promise.resolve({ code: launched.code, signal: null }) }
  }
  // The app outlives the server.
  launched.child.unref()
  const endWatch = confinement.watch({ ...release, id: unit }, 'app', launched.process)
  void launched.exited.then(endWatch)
  return launched
}
