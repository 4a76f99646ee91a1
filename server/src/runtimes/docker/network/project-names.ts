import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createKeyedLock } from '../../../platform/keyed-lock.ts'
import { hostsLine, type NamedAddress, type Neighbours, type ProjectContainers } from '../../network/neighbours.ts'

/**
 * Containers and processes of a project know each other's names. Callers change a project in one call at a time, and
 * keep its container network during the call.
 */
export interface ProjectNames {
  /**
   * Connects a project's containers and processes. Resolves with the mount that shows the processes' names to
   * containers; null when containers reach no processes.
   */
  open(projectId: string): Promise<Mount | null>
  /** Tells a project's processes the names of its containers. */
  refresh(projectId: string): Promise<void>
  /** Removes all data of a project that has no container network. */
  remove(projectId: string): Promise<void>
  projects(): Promise<readonly string[]>
}

export interface Mount {
  readonly Source: string
  readonly [other: string]: unknown
}

export const hostsInside = '/etc/hosts'

export interface ProjectNamesOptions {
  readonly neighbours: Neighbours
  readonly folder: string
  readonly containersOf: (projectId: string) => Promise<ProjectContainers | null>
  /** Called right before the server makes or removes an object; throws when another server leads. */
  readonly fence: () => void
}

export function createProjectNames({ neighbours, folder, containersOf, fence }: ProjectNamesOptions): ProjectNames {
  const files = createHostsFiles(folder, neighbours.processesOf)
  const refresh = async (projectId: string): Promise<void> => {
    const containers = await containersOf(projectId)
    fence()
    await neighbours.set(projectId, containers)
    await files.refresh(projectId)
  }
  // The next sweep retries a failed write.
  neighbours.onProcesses((projectId) => void files.refresh(projectId).catch(() => undefined))

  return {
    async open(projectId) {
      await neighbours.restoreRules()
      await refresh(projectId)
      fence()
      return { Type: 'bind', Source: await files.make(projectId), Target: hostsInside, ReadOnly: true }
    },
    refresh,
    async remove(projectId) {
      fence()
      await neighbours.set(projectId, null)
      await files.remove(projectId)
    },
    projects: async () => [...new Set([...neighbours.projects(), ...(await files.projects())])],
  }
}

/** Used where the processes and the containers of projects do not reach each other. */
export const noProjectNames: ProjectNames = {
  open: async () => null,
  refresh: async () => undefined,
  remove: async () => undefined,
  projects: async () => [],
}

/** The names of each project's processes. Containers see these files as `/etc/hosts`. */
export interface HostsFiles {
  make(projectId: string): Promise<string>
  /** Writes the current names; does nothing without the file. */
  refresh(projectId: string): Promise<void>
  remove(projectId: string): Promise<void>
  projects(): Promise<string[]>
}

/** Containers have no IPv6, so `localhost` is only IPv4. */
const common = '127.0.0.1 localhost\n::1 ip6-localhost ip6-loopback'

/**
 * @param folder an absolute path; made when it is needed
 * @param processesOf returns the processes of a project with a name
 */
export function createHostsFiles(
  folder: string,
  processesOf: (projectId: string) => readonly NamedAddress[],
): HostsFiles {
  const lock = createKeyedLock()
  const pathOf = (projectId: string) => join(folder, projectId)
  const write = (projectId: string, flags: number): Promise<void> =>
    lock(projectId, async () => {
      await using file = await open(pathOf(projectId), flags)
      // Users of containers read the file, so the server's umask must not matter.
      await file.chmod(0o644)
      await overwrite(file, [common, ...processesOf(projectId).map(hostsLine), ''].join('\n'))
    })

  return {
    async make(projectId) {
      await mkdir(folder, { recursive: true })
      await write(projectId, constants.O_RDWR | constants.O_CREAT)
      return pathOf(projectId)
    },
    refresh: (projectId) => write(projectId, constants.O_RDWR).catch(unlessNoFile),
    remove: (projectId) => lock(projectId, () => rm(pathOf(projectId), { force: true })),
    projects: () => readdir(folder).catch((error) => unlessNoFile(error) ?? []),
  }
}

/**
 * Replaces the text of a file in place, because running containers see this file and not a replacement. Until the
 * truncation, empty lines overwrite the rest of the former text, so no former name remains.
 */
async function overwrite(file: FileHandle, text: string): Promise<void> {
  const { size } = await file.stat()
  const whole = Buffer.from(text.padEnd(size, '\n'))
  const { bytesWritten } = await file.write(whole, 0, whole.length, 0)
  if (bytesWritten < whole.length) throw new Error('the names of a project were not written whole')
  await file.truncate(text.length)
}

function unlessNoFile(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
}
