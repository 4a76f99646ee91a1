import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createKeyedLock } from '../../../platform/keyed-lock.ts'
import { hostsLine, type NamedAddress, type Neighbours, type ProjectContainers } from '../../network/neighbours.ts'

/**
 * Tells the containers and the processes of projects by which names they find each other. Callers change a project one at a time,
 * and its network of containers meanwhile stays as it is.
 */
export interface ProjectNames {
  /**
   * Lets a project's containers and processes reach each other, as those are now. Resolves with the mount by which its containers
   * see the names of the processes; null where they reach none.
   */
  open(projectId: string): Promise<Mount | null>
  /** Tells a project's processes of its containers, as those are now. */
  refresh(projectId: string): Promise<void>
  /** Removes all that is kept of a project without a network of containers. */
  remove(projectId: string): Promise<void>
  /** The projects of which something is kept. */
  projects(): Promise<readonly string[]>
}

/** A folder or a file that a container sees, as the engine describes it. */
export interface Mount {
  readonly Source: string
  readonly [other: string]: unknown
}

/** The file in which containers see the names. */
export const hostsInside = '/etc/hosts'

export interface ProjectNamesOptions {
  readonly neighbours: Neighbours
  /** The absolute path of a folder for the files that containers see. */
  readonly folder: string
  /** Resolves with null where a project has no network of containers. */
  readonly containersOf: (projectId: string) => Promise<ProjectContainers | null>
  /** Called right before something is made or removed; throws when another server leads. */
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
  // The next sweep writes again what could not be written.
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

/** Names where the processes and the containers of projects do not reach each other. */
export const noProjectNames: ProjectNames = {
  open: async () => null,
  refresh: async () => undefined,
  remove: async () => undefined,
  projects: async () => [],
}

/** Files with the names of the processes of each project, which its containers see as `/etc/hosts`. */
export interface HostsFiles {
  /** Makes the file of a project unless it is there. Resolves with its path. */
  make(projectId: string): Promise<string>
  /** Writes the names as they are now; does nothing without the file. */
  refresh(projectId: string): Promise<void>
  remove(projectId: string): Promise<void>
  /** The projects that have a file. */
  projects(): Promise<string[]>
}

/** A container has no IPv6, so `localhost` leads to IPv4 alone. */
const common = '127.0.0.1 localhost\n::1 ip6-localhost ip6-loopback'

/**
 * @param folder an absolute path; made when it is needed
 * @param processesOf returns the processes of a project that have a name
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
      // Users of containers read it, whatever the server's files are by default.
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
 * Replaces the text of a file in place, because containers that run see this file and not a later one of its name. Until the file
 * is cut, the rest of the former text is empty lines, so that no name of it is left.
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
