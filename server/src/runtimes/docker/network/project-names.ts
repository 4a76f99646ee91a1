import type { Neighbours, ProjectContainers } from '../../network/neighbours.ts'
import { createHostsFiles } from './hosts-files.ts'

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
